#include "harness/acceptance/study/study.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "harness/acceptance/study/chains.h"
#include "harness/acceptance/study/judge.h"

namespace mtpcheck {
namespace {

// What a trace of this origin can tell at a depth.
void say_what_is_sound(DepthFigures& figures, TraceOrigin origin, double trace_temperature,
                       const SamplingParameters& sampling) {
  if (figures.depth == 1) return;
  const bool own_temperature = origin == TraceOrigin::sampled && sampling.temperature == trace_temperature &&
                               sampling.top_k == 0 && sampling.top_p == 1 && sampling.min_p == 0;
  figures.greedy_sound = origin == TraceOrigin::greedy;
  figures.expected_sound = own_temperature;
  if (!figures.greedy_sound) {
    figures.greedy_note = origin == TraceOrigin::natural
                              ? "teacher-forced agreement, not acceptance: the target was not run on the drafts"
                              : "agreement along a sampled trace, not acceptance: greedy drafts leave its path";
  }
  if (!figures.expected_sound) {
    figures.expected_note =
        origin == TraceOrigin::sampled
            ? fmt::format("biased: the trace was sampled at temperature {} without filters", trace_temperature)
            : "biased: the tokens were not sampled from the target";
  }
}

// Collects the chains' outcomes in the order in which rows and depths come.
class Collector {
 public:
  Collector(std::span<const TargetTrace> traces, const StudyOptions& options, const SamplingParameters& sampling)
      : traces_(traces), options_(options), sampling_(sampling) {
    for (const auto& trace : traces) {
      ranges_.push_back(judged_rows(trace, options.depth));
      ranges_.back().end = std::min(ranges_.back().end, tokens_to_end(trace, options.eos) - 1);
      rows_.emplace_back(trace.tokens());
      low_.emplace_back(trace.tokens(), 1.0);
      high_.emplace_back(trace.tokens(), 1.0);
    }
  }

  void operator()(const DraftRow& draft) {
    const auto& trace = traces_[draft.sequence];
    const RowRange range = ranges_[draft.sequence];
    if (draft.row < range.first || draft.row >= range.end || draft.row + draft.depth + 1 >= trace.tokens()) return;
    if (draft.depth >= drafts_to_end(trace, draft.row, options_.depth, options_.eos)) return;
    const std::size_t judge = draft.row + draft.depth + 1;
    const std::int64_t next = trace.input_ids[std::min(judge + 1, trace.tokens() - 1)];
    const Judgement judged = judge_draft(trace, judge, draft.logits, next, sampling_);
    RowOutcome& row = rows_[draft.sequence][draft.row];
    double& low = low_[draft.sequence][draft.row];
    double& high = high_[draft.sequence][draft.row];
    DepthOutcome outcome = judged.outcome;
    outcome.reach_low = low * judged.expected.low;
    outcome.reach_high = high * judged.expected.high;
    outcome.reach = (outcome.reach_low + outcome.reach_high) / 2;
    low *= judged.continuation.low;
    high *= judged.continuation.high;
    row.depths.push_back(outcome);
    if (draft.depth == 0) {
      row.sequence = draft.sequence;
      row.row = draft.row;
      row.position = trace.positions[draft.row];
      row.target_token = next;
    }
  }

  std::vector<RowOutcome> take() {
    std::vector<RowOutcome> all;
    for (auto& rows : rows_) {
      for (auto& row : rows) {
        if (!row.depths.empty()) all.push_back(std::move(row));
      }
    }
    return all;
  }

 private:
  std::span<const TargetTrace> traces_;
  const StudyOptions& options_;
  const SamplingParameters& sampling_;
  std::vector<RowRange> ranges_;
  std::vector<std::vector<RowOutcome>> rows_;
  std::vector<std::vector<double>> low_;  // product of min(1, q/p) so far, its bounds
  std::vector<std::vector<double>> high_;
};

void add_row(AcceptanceStudy& study, const RowOutcome& row) {
  auto& sequence = study.sequences[row.sequence];
  ++sequence.chains;
  const std::size_t accepted = row.accepted_greedily();
  add_step(study.greedy_counts, row.depths.size(), accepted);
  study.expected_counts.steps += 1;
  for (std::size_t k = 0; k < row.depths.size(); ++k) {
    const DepthOutcome& outcome = row.depths[k];
    // On natural text a draft is judged by itself at every depth: no draft before it was really accepted.
    const bool hit = study.origin == TraceOrigin::natural ? outcome.greedy_hit : k < accepted;
    sequence.greedy[k].numerator += hit ? 1 : 0;
    sequence.greedy[k].denominator += 1;
    sequence.expected[k].numerator += outcome.reach;
    sequence.expected[k].denominator += 1;
    study.expected_counts.drafted += 1;
    study.expected_counts.drafted_at[k] += 1;
    study.expected_counts.reached[k] += outcome.reach;
    study.depths[k].expected_low += outcome.reach_low;
    study.depths[k].expected_high += outcome.reach_high;
  }
}

std::vector<SequenceSums> at_depth(std::span<const SequenceFigures> sequences, std::size_t k, bool greedy) {
  std::vector<SequenceSums> sums;
  for (const auto& sequence : sequences) sums.push_back(greedy ? sequence.greedy[k] : sequence.expected[k]);
  return sums;
}

void finish_depth(AcceptanceStudy& study, std::size_t k) {
  DepthFigures& figures = study.depths[k];
  const auto greedy = at_depth(study.sequences, k, true);
  const auto expected = at_depth(study.sequences, k, false);
  for (std::size_t s = 0; s < greedy.size(); ++s) {
    figures.accepted += greedy[s].numerator;
    figures.drafted += greedy[s].denominator;
    figures.expected_sum += expected[s].numerator;
    figures.expected_rows += expected[s].denominator;
  }
  for (std::size_t j = 0; j <= k && study.greedy_counts.steps > 0; ++j) {
    if (j < study.greedy_counts.reached.size())
      figures.greedy_length += study.greedy_counts.reached[j] / study.greedy_counts.steps;
    figures.expected_length += study.expected_counts.reached[j] / study.expected_counts.steps;
  }
  figures.greedy_ci = bootstrap_interval(greedy, study.options.seed);
  figures.expected_ci = bootstrap_interval(expected, study.options.seed);
}

}  // namespace

std::size_t RowOutcome::accepted_greedily() const {
  const auto miss = std::ranges::find(depths, false, &DepthOutcome::greedy_hit);
  return static_cast<std::size_t>(miss - depths.begin());
}

RowRange judged_rows(const TargetTrace& trace, std::size_t depth) {
  const std::size_t tokens = trace.tokens();
  if (trace.origin == TraceOrigin::natural) return {0, tokens - 1};
  const std::size_t first = trace.prompt_length >= 2 ? trace.prompt_length - 2 : 0;
  const std::size_t end = tokens > depth + 1 ? tokens - depth - 1 : 0;
  return {std::min(first, end), end};
}

namespace {

// A study with its labels and no rows yet.
AcceptanceStudy begin_study(std::span<const TargetTrace> traces, const StudyOptions& options,
                            const SamplingParameters& sampling) {
  AcceptanceStudy result;
  result.options = options;
  result.sampling = sampling;
  result.origin = traces.empty() ? TraceOrigin::natural : traces.front().origin;
  for (const auto& trace : traces) {
    result.sequences.push_back(
        {trace.name, 0, std::vector<SequenceSums>(options.depth), std::vector<SequenceSums>(options.depth)});
  }
  for (std::size_t k = 0; k < options.depth; ++k) {
    DepthFigures figures;
    figures.depth = k + 1;
    say_what_is_sound(figures, result.origin, traces.empty() ? 1.0 : traces.front().temperature, sampling);
    result.depths.push_back(std::move(figures));
  }
  result.expected_counts.reached.assign(options.depth, 0.0);
  result.expected_counts.drafted_at.assign(options.depth, 0.0);
  return result;
}

ChainOptions chain_options(std::span<const TargetTrace> traces, const StudyOptions& options) {
  const bool natural = traces.empty() || traces.front().origin == TraceOrigin::natural;
  ChainOptions chains{
      .depth = options.depth,
      .drive = natural ? Drive::own : Drive::trace,
      .block_rows = std::max<std::size_t>(1, options.block_rows / std::max<std::size_t>(1, traces.size()))};
  chains.first_row = std::numeric_limits<std::size_t>::max();
  for (const auto& trace : traces)
    chains.first_row = std::min(chains.first_row, judged_rows(trace, options.depth).first);
  return chains;
}

}  // namespace

std::vector<AcceptanceStudy> study(Head& head, std::span<const TargetTrace> traces, const StudyOptions& options,
                                   std::span<const SamplingParameters> samplings) {
  std::vector<Collector> collectors;
  for (const auto& sampling : samplings) collectors.emplace_back(traces, options, sampling);
  double total = 0;
  for (const auto& trace : traces) total += static_cast<double>((trace.tokens() - 1) * options.depth);
  double done = 0;
  run_chains(head, traces, chain_options(traces, options), [&](const DraftRow& draft) {
    for (auto& collector : collectors) collector(draft);
    done += 1;
    if (options.progress) options.progress(std::min(1.0, done / total));
  });
  std::vector<AcceptanceStudy> studies;
  for (std::size_t i = 0; i < samplings.size(); ++i) {
    AcceptanceStudy& result = studies.emplace_back(begin_study(traces, options, samplings[i]));
    result.rows = collectors[i].take();
    for (const auto& row : result.rows) add_row(result, row);
    for (std::size_t k = 0; k < options.depth; ++k) finish_depth(result, k);
  }
  return studies;
}

AcceptanceStudy study(Head& head, std::span<const TargetTrace> traces, const StudyOptions& options) {
  const SamplingParameters plain;
  return study(head, traces, options, std::span(&plain, 1)).front();
}

std::vector<PairedDifference> compare_sequences(std::span<const SequenceFigures> a, std::span<const SequenceFigures> b,
                                                std::uint64_t seed) {
  const auto differences = [](std::span<const SequenceSums> x, std::span<const SequenceSums> y) {
    std::vector<double> per_sequence;
    for (std::size_t s = 0; s < x.size(); ++s) per_sequence.push_back(y[s].numerator - x[s].numerator);
    return per_sequence;
  };
  std::vector<PairedDifference> result;
  const bool same = std::ranges::equal(a, b, {}, &SequenceFigures::name, &SequenceFigures::name);
  const std::size_t depths = a.empty() || !same ? 0 : std::min(a[0].greedy.size(), b[0].greedy.size());
  for (std::size_t k = 0; k < depths; ++k) {
    const auto greedy_a = at_depth(a, k, true);
    const auto greedy_b = at_depth(b, k, true);
    const auto expected_a = at_depth(a, k, false);
    const auto expected_b = at_depth(b, k, false);
    result.push_back({.depth = k + 1,
                      .greedy = ratio_of_sums(greedy_b) - ratio_of_sums(greedy_a),
                      .greedy_ci = paired_bootstrap_interval(greedy_a, greedy_b, seed),
                      .greedy_p = sign_flip_p_value(differences(greedy_a, greedy_b), seed),
                      .expected = ratio_of_sums(expected_b) - ratio_of_sums(expected_a),
                      .expected_ci = paired_bootstrap_interval(expected_a, expected_b, seed),
                      .expected_p = sign_flip_p_value(differences(expected_a, expected_b), seed)});
  }
  return result;
}

}  // namespace mtpcheck
