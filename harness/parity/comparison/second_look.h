#pragma once

#include <functional>
#include <set>
#include <string_view>

#include "harness/parity/comparison/reference_runs.h"
#include "harness/parity/stage/stage_noise.h"
#include "harness/parity/stage/tolerance.h"
#include "harness/parity/trace/trace.h"

namespace mtpcheck {

using StageKeys = std::set<StageKey, ByComputation>;

/// Stages of real numbers that fail against `noise` by what may be luck of the one sample that it was measured on.
StageKeys doubtful_stages(const Trace& candidate, const Trace& truth, const NoiseByStage& noise,
                          const Tolerance& tolerance);

/// Measures the noise of `doubtful` stages on eight inputs nearby, and adds it to what is known.
///
/// run  the reference on an input nearby, as ReferenceRuns::run_nearby or replay_nearby
void measure_again(NoiseByStage& noise, const StageKeys& doubtful, Dtype precision,
                   const std::function<Trace(Dtype precision, const Nearby& nearby)>& run,
                   const std::function<void(std::string_view doing)>& progress);

}  // namespace mtpcheck
