#include "harness/acceptance/study/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/acceptance/statistics/row_statistics.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

double ratio_weight(double p, double q) { return p > 0 ? std::min(1.0, q / p) : 1.0; }

bool plain_softmax(const SamplingParameters& sampling) {
  return sampling.temperature > 0 && sampling.top_k == 0 && sampling.top_p == 1 && sampling.min_p == 0;
}

[[noreturn]] void refuse_draft(const TargetTrace& trace, std::size_t judge) {
  throw input_error(
      fmt::format("{}: the draft judged at position {} has NaN, +inf, or nothing but -inf logits", trace.name, judge));
}

Judgement judge_by_logits(const TargetTrace& trace, std::size_t judge, std::span<const float> draft, std::size_t next,
                          const SamplingParameters& sampling) {
  const LogitsRow target_row = trace.logits_of(judge);
  const auto target = target_row.values();
  const double temperature = sampling.temperature > 0 ? sampling.temperature : 1.0;
  const RowStatistics row = row_statistics(target, draft, temperature);
  if (!is_sound(row)) refuse_draft(trace, judge);
  Judgement result;
  result.outcome = {.greedy_hit = row.target_argmax == row.draft_argmax,
                    .draft = static_cast<std::int64_t>(row.draft_argmax),
                    .target_margin = row.target_margin,
                    .draft_margin = row.draft_margin,
                    .expected = row.expected_acceptance};
  double weight = ratio_weight(probability(target, next, row.target_log_normaliser, temperature),
                               probability(draft, next, row.draft_log_normaliser, temperature));
  if (!plain_softmax(sampling)) {
    const Distribution p = distribution(target, sampling);
    const Distribution q = distribution(draft, sampling);
    result.outcome.expected = expected_acceptance(p, q);
    weight = ratio_weight(p[next], q[next]);
  }
  result.expected = {result.outcome.expected, result.outcome.expected};
  result.continuation = {weight, weight};
  return result;
}

Judgement judge_by_top(const TargetTrace& trace, std::size_t judge, std::span<const float> draft, std::size_t next,
                       const SamplingParameters& sampling) {
  if (!plain_softmax(sampling) || sampling.temperature != 1) {
    throw usage_error(fmt::format(
        "{}: top-N log-probabilities tell the distribution at temperature 1 without filters only", trace.name));
  }
  const RowStatistics row = row_statistics(draft, draft);
  if (!is_sound(row)) refuse_draft(trace, judge);
  const std::size_t first = judge * trace.top_n;
  double shared = 0;
  double target_mass = 0;
  double draft_mass = 0;
  double smallest = 1;
  std::optional<double> p_next;
  for (std::size_t n = 0; n < trace.top_n; ++n) {
    const auto token = static_cast<std::size_t>(trace.top_ids[first + n]);
    const double p = std::exp(static_cast<double>(trace.top_log_probabilities[first + n]));
    const double q = probability(draft, token, row.draft_log_normaliser);
    shared += std::min(p, q);
    target_mass += p;
    draft_mass += q;
    smallest = std::min(smallest, p);
    if (token == next) p_next = p;
  }
  const double stated =
      trace.remaining_mass.empty() ? 1 - target_mass : static_cast<double>(trace.remaining_mass[judge]);
  const double target_rest = std::max(0.0, stated);
  const double draft_rest = std::max(0.0, 1 - draft_mass);
  const double q_next = probability(draft, next, row.draft_log_normaliser);
  Judgement result;
  const auto top = static_cast<std::size_t>(trace.top_ids[first]);
  const float gap =
      trace.top_n > 1 ? trace.top_log_probabilities[first] - trace.top_log_probabilities[first + 1] : 0.0F;
  result.outcome = {.greedy_hit = top == row.draft_argmax,
                    .draft = static_cast<std::int64_t>(row.draft_argmax),
                    .target_margin = gap,
                    .draft_margin = row.draft_margin,
                    .expected = shared};
  result.expected = {shared, shared + std::min(target_rest, draft_rest)};
  if (p_next) {
    result.continuation = {ratio_weight(*p_next, q_next), ratio_weight(*p_next, q_next)};
  } else {
    result.continuation = {ratio_weight(std::min(target_rest, smallest), q_next), 1.0};
  }
  return result;
}

}  // namespace

Judgement judge_draft(const TargetTrace& trace, std::size_t judge, std::span<const float> draft, std::int64_t next,
                      const SamplingParameters& sampling) {
  const auto token = static_cast<std::size_t>(next);
  return trace.top_n > 0 ? judge_by_top(trace, judge, draft, token, sampling)
                         : judge_by_logits(trace, judge, draft, token, sampling);
}

}  // namespace mtpcheck
