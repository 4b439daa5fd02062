#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/acceptance/statistics/bootstrap.h"
#include "harness/acceptance/statistics/engine_metrics.h"
#include "harness/acceptance/trace/target_trace.h"
#include "reference/model/head.h"
#include "reference/protocol/distribution.h"

namespace mtpcheck {

/// One draft, judged: depth k of the chain from a row. Kept for every row, so that figures can be grouped afterwards.
struct DepthOutcome {
  bool greedy_hit = false;  ///< the draft's first largest logit is the target's
  std::int64_t draft = 0;   ///< the draft's first largest logit
  float target_margin = 0;  ///< gap between the target's two largest logits
  float draft_margin = 0;   ///< and the draft's: a hit within rounding of a tie proves nothing
  double expected = 0;      ///< Σ min(p, q) at this depth
  double reach = 0;         ///< estimate of P(drafts 1 … k are all accepted), see docs/acceptance.md
  double reach_low = 0;     ///< bounds where the trace holds only the top N; both equal to reach otherwise
  double reach_high = 0;
};

/// The chain from one row.
struct RowOutcome {
  std::size_t sequence = 0;
  std::size_t row = 0;
  std::int64_t position = 0;
  std::int64_t target_token = 0;          ///< the target's own first choice for the first drafted token
  std::vector<DepthOutcome> depths;       ///< up to K; fewer at the end of a sequence
  std::size_t accepted_greedily() const;  ///< leading hits
};

/// What is studied: how many drafts, from where to where.
struct StudyOptions {
  std::size_t depth = 1;
  std::vector<std::int64_t> eos;         ///< tokens that end a sequence
  std::uint64_t seed = 0;                ///< of the bootstrap
  std::size_t block_rows = 256;          ///< rows of logits that are held at once, of all sequences together
  std::function<void(double)> progress;  ///< share of the work done
};

/// Figures of one depth. `sound` says whether the traces can tell this at all; `note` says why not, or what it is
/// instead.
struct DepthFigures {
  std::size_t depth = 1;
  double accepted = 0;  ///< greedy: chains that reached this depth
  double drafted = 0;   ///< greedy: chains
  ConfidenceInterval greedy_ci;
  bool greedy_sound = true;
  std::string greedy_note;
  double expected_sum = 0;  ///< Σ reach over chains
  double expected_rows = 0;
  double expected_low = 0;  ///< Σ of the bounds
  double expected_high = 0;
  ConfidenceInterval expected_ci;
  bool expected_sound = true;
  std::string expected_note;

  double greedy_rate() const { return drafted == 0 ? 0 : accepted / drafted; }
  double expected_rate() const { return expected_rows == 0 ? 0 : expected_sum / expected_rows; }

  /// Mean acceptance length of a drafter that stops at this depth: 1 + Σ reached(j) / steps, j up to it.
  double greedy_length = 1;
  double expected_length = 1;
};

struct SequenceFigures {
  std::string name;
  std::size_t chains = 0;
  std::vector<SequenceSums> greedy;    ///< [K]
  std::vector<SequenceSums> expected;  ///< [K]
};

struct AcceptanceStudy {
  TraceOrigin origin = TraceOrigin::natural;
  StudyOptions options;
  SamplingParameters sampling;
  std::vector<RowOutcome> rows;
  std::vector<SequenceFigures> sequences;
  std::vector<DepthFigures> depths;
  AcceptanceCounts greedy_counts;    ///< every chain taken as a verification step
  AcceptanceCounts expected_counts;  ///< the same with reach in place of counts

  double mean_acceptance_length_greedy() const { return mean_acceptance_length(greedy_counts); }
  double mean_acceptance_length_expected() const { return mean_acceptance_length(expected_counts); }
};

/// Rows whose chains count: from the first draft of the target's own text (row prompt_length − 2) where the target
/// wrote the trace, all rows of natural text. The last row leaves room for K drafts and, on the target's own text, the
/// token that follows them.
struct RowRange {
  std::size_t first = 0;
  std::size_t end = 0;
};
RowRange judged_rows(const TargetTrace& trace, std::size_t depth);

/// Studies a head on traces of one origin, once for each way of sampling (of target and draft alike). The head runs
/// once: the chains do not depend on it. The traces must have passed `check_trace`.
std::vector<AcceptanceStudy> study(Head& head, std::span<const TargetTrace> traces, const StudyOptions& options,
                                   std::span<const SamplingParameters> samplings);

/// The same for plain sampling at temperature 1.
AcceptanceStudy study(Head& head, std::span<const TargetTrace> traces, const StudyOptions& options);

/// Two heads on the same rows: b − a per depth, with a paired interval and test. Nothing for other sequences.
struct PairedDifference {
  std::size_t depth = 1;
  double greedy = 0;  ///< rate of b − rate of a
  ConfidenceInterval greedy_ci;
  double greedy_p = 1;
  double expected = 0;
  ConfidenceInterval expected_ci;
  double expected_p = 1;
};
std::vector<PairedDifference> compare_sequences(std::span<const SequenceFigures> a, std::span<const SequenceFigures> b,
                                                std::uint64_t seed);

}  // namespace mtpcheck
