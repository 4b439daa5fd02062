#include "harness/parity/metrics/logit_agreement.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

namespace mtpcheck {
namespace {

constexpr std::size_t kBest = 5;

/// log softmax; all NaN where it does not exist.
std::vector<double> log_softmax(std::span<const double> logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  const double normaliser = largest + std::log(sum);
  std::vector<double> log_p(logits.begin(), logits.end());
  for (double& value : log_p) value -= normaliser;
  return log_p;
}

double divergence(std::span<const double> reference, std::span<const double> candidate) {
  const std::vector<double> log_p = log_softmax(reference);
  const std::vector<double> log_q = log_softmax(candidate);
  double sum = 0;
  for (std::size_t i = 0; i < log_p.size(); ++i) {
    const double p = std::exp(log_p[i]);
    if (p != 0) sum += p * (log_p[i] - log_q[i]);
  }
  return std::isnan(sum) ? std::numeric_limits<double>::infinity() : std::max(sum, 0.0);
}

std::vector<std::size_t> best(std::span<const double> logits) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto rank = [&](std::size_t i) {
    return std::isnan(logits[i]) ? -std::numeric_limits<double>::infinity() : logits[i];
  };
  const std::size_t count = std::min(kBest, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&](std::size_t a, std::size_t b) { return rank(a) != rank(b) ? rank(a) > rank(b) : a < b; });
  order.resize(count);
  return order;
}

}  // namespace

reports::LogitsRecord logit_agreement(const TensorView& candidate, const TensorView& reference) {
  reports::LogitsRecord record;
  const std::size_t rows = reference.shape.empty() ? 0 : reference.shape.front();
  const std::size_t width = rows == 0 ? 0 : reference.elements() / rows;
  if (width == 0) return record;
  const std::vector<double> c = to_f64(candidate);
  const std::vector<double> r = to_f64(reference);
  std::size_t same_best = 0;
  std::size_t shared = 0;
  std::size_t wanted = 0;
  record.kl_max = -1;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::span<const double> candidate_row(c.data() + row * width, width);
    const std::span<const double> reference_row(r.data() + row * width, width);
    const double kl = divergence(reference_row, candidate_row);
    record.kl_mean += kl / static_cast<double>(rows);
    if (kl > record.kl_max) {
      record.kl_max = kl;
      record.kl_max_row = static_cast<std::int64_t>(row);
    }
    const auto candidate_best = best(candidate_row);
    const auto reference_best = best(reference_row);
    same_best += candidate_best.front() == reference_best.front() ? 1 : 0;
    wanted += reference_best.size();
    shared += static_cast<std::size_t>(std::ranges::count_if(reference_best, [&](std::size_t token) {
      return std::ranges::find(candidate_best, token) != candidate_best.end();
    }));
  }
  record.top1_agreement = static_cast<double>(same_best) / static_cast<double>(rows);
  record.top5_agreement = static_cast<double>(shared) / static_cast<double>(wanted);
  return record;
}

}  // namespace mtpcheck
