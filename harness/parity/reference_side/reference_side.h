#pragma once

#include <string>
#include <vector>

#include "harness/parity/comparison/reference_runs.h"
#include "harness/parity/dump/adopt.h"
#include "reference/head/head_options.h"
#include "reference/model/config.h"
#include "reference/model/conventions.h"
#include "reference/model/input.h"
#include "reference/model/weights.h"

namespace mtpcheck {

/// What the reference side of a comparison is.
struct ReferenceSide {
  HeadConfig config;
  HeadWeights weights;
  Conventions conventions;
  std::string rounding_preset = "vllm";  ///< whose rounding points calibrate the allowance
  ActivationQuantisation activations = ActivationQuantisation::none;
  Vector target_norm;  ///< weight of the target's final norm [H], for likely causes; empty: unknown
};

/// The Eigen reference as a comparison needs it.
///
/// steps   inputs of the draft steps as the candidate had them: step k ≥ 1 holds the candidate's tokens, and the hidden
///         states that it recycled. The cumulative view takes the tokens and recycles the reference's own states; the
///         replay takes both.
/// wanted  stages to record; empty: all
ReferenceRuns make_reference_runs(const ReferenceSide& side, std::vector<HeadInput> steps,
                                  const std::function<bool(Stage)>& wanted = {});

/// Every stage of every step, with the shape that the reference records.
ExpectedStages expected_stages(const HeadConfig& config, const std::vector<HeadInput>& steps,
                               const std::function<bool(Stage)>& wanted = {});

/// The known ways of going wrong that are tried where a stage fails in replay, the likelier first.
struct KnownDeviation {
  std::string description;    ///< completes "the candidate matches …"
  std::vector<Stage> stages;  ///< where it shows first
  std::function<void(Conventions&, Deviations&)> apply;
  std::function<void(HeadInput&)> feed;  ///< of what is fed wrongly: how the input differs; empty: it does not
};
std::vector<KnownDeviation> known_deviations(const ReferenceSide& side);

}  // namespace mtpcheck
