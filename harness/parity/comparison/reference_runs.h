#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "harness/parity/trace/trace.h"
#include "reference/model/input.h"
#include "reference/tensor/dtype.h"

namespace mtpcheck {

/// An input close to the compared one, for measuring once more what rounding costs there.
struct Nearby {
  std::uint64_t sample = 0;  ///< another one each; the same again for the same number
  std::set<Stage> stages;    ///< what has to be recorded
};

/// How the comparison asks the reference for what it needs. Steps are draft steps; a plain prefill has one.
struct ReferenceRuns {
  /// Runs all steps with arithmetic of `precision` (f64: the truth; f32, bf16, f16: rounded as an engine rounds).
  /// `forced` has one entry a step; an entry that forces nothing leaves the step its own choices.
  std::function<Trace(Dtype precision, const std::vector<Selections>& forced)> run;

  /// Stages that are compared; empty: all that `run` records. It records choices and their scores in any case, since
  /// selections are settled by them.
  std::function<bool(Stage)> compared;

  /// Scores that decide the choice of experts, one row a token, −inf for an expert that may not be chosen; from router
  /// logits [T, E]. Empty where the layer has no experts.
  std::function<std::vector<std::vector<double>>(const TensorView& router_logits)> expert_scores;

  /// Every stage that can be computed from the candidate's own inputs to it, with arithmetic of `precision`. Empty: no
  /// replay.
  std::function<Trace(Dtype precision, const Trace& candidate)> replay;

  /// The two on an input nearby. Empty: what rounding costs is known from the compared input alone.
  std::function<Trace(Dtype precision, const std::vector<Selections>& forced, const Nearby& nearby)> run_nearby;
  std::function<Trace(Dtype precision, const Trace& candidate, const Nearby& nearby)> replay_nearby;

  /// A known way of going wrong, tried on a stage that fails in replay.
  struct Deviation {
    std::string description;   ///< completes "the candidate matches …"
    bool fed_wrongly = false;  ///< concerns what is fed, and so the cumulative view too
    /// The stage as the truth computes it with this deviation, from the candidate's own inputs; no elements where the
    /// deviation does not concern it.
    std::function<Tensor(const StageKey& stage, const Trace& candidate)> replay;
  };
  std::vector<Deviation> deviations;
};

}  // namespace mtpcheck
