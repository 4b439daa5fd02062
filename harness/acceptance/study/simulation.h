#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "harness/acceptance/statistics/engine_metrics.h"
#include "harness/acceptance/trace/target_trace.h"
#include "reference/model/head.h"
#include "reference/protocol/distribution.h"

namespace mtpcheck {

struct SimulationOptions {
  std::size_t depth = 1;
  bool greedy = true;             ///< verification: by the target's first choice, or by rejection sampling
  SamplingParameters sampling;    ///< of rejection sampling; only the trace's own makes the loop that of an engine
  std::vector<std::int64_t> eos;  ///< tokens that end a sequence: the loop stops behind an accepted one
  std::uint64_t seed = 0;
};

/// The drafter's real loop along traces that the target wrote: feed the rows that verification confirmed, draft K
/// tokens, verify, roll the caches back to the accepted length, go on after the last emitted token. The steps' counts
/// are a cross-check of `study`, which takes every row as a start; a loop starts only where the step before ended.
///
/// Greedy: the trace is the target's greedy text, so a draft is accepted exactly when it is the trace's token.
/// Rejection: given that a step emits token x, its draft was accepted with probability min(1, q(x)/p(x)); the loop
/// draws that, so that the emitted text is the trace, which was sampled from p, and the target never has to be run.
///
/// Throws Error{usage} for natural text, which no loop can have produced, and for a trace without whole logits.
/// Returns one set of counts a trace.
std::vector<AcceptanceCounts> simulate(Head& head, std::span<const TargetTrace> traces,
                                       const SimulationOptions& options);

}  // namespace mtpcheck
