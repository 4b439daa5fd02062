#pragma once

#include <filesystem>
#include <optional>

#include "harness/faults/study/fault_study.h"
#include "harness/parity/trace/chain.h"

namespace mtpcheck {

/// A head's recorded chain on the study's rows, and the weights and conventions that the reference holds it to.
struct ReferenceOf {
  const OpenedCheckpoint& clean;
  Conventions conventions;
  HeadInput input;  ///< what should have been fed
};

/// audit's view of a broken checkpoint: its gravest finding, and whether one names the place.
Sighting look_with_audit(const std::filesystem::path& folder, const Fault& fault);

/// compare's view of a candidate's chain. `inputs` are those of the candidate's steps as they should have been.
Sighting look_with_compare(const ReferenceOf& reference, const Trace& candidate, const std::vector<HeadInput>& inputs,
                           const Fault& fault);

/// Runs a chain of `steps` steps with the mistakes of a drafter between the first and the second. Returns the trace and
/// the inputs as they should have been.
Chain run_mistaken_chain(Head& head, const HeadInput& input, std::size_t steps, const StepMistakes& mistakes);

/// Depth 1 on traces. With a fault of what is fed, every batch that the head is given is changed by it first.
AcceptancePoint acceptance_of(Head& head, std::span<const TargetTrace> traces, const Fault* fed_with = nullptr,
                              const Vector& target_norm = {});

/// True when two runs in float64 differ anywhere by more than float32 can show: a choice, a mask, or the root mean
/// square of a stage by 4 units in the last place of float32, which is the floor of the tolerance policy. What stays
/// below has no effect on this input that any head in float32 could be told apart by.
bool differ(const Trace& a, const Trace& b);

}  // namespace mtpcheck
