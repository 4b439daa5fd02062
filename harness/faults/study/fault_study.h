#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/acceptance/trace/target_trace.h"
#include "harness/faults/catalogue/fault.h"
#include "harness/heads/opened_checkpoint.h"
#include "reference/model/input.h"

namespace mtpcheck {

/// What one command saw of a fault.
struct Sighting {
  bool looked = false;       ///< the command could be run on it
  bool seen = false;         ///< a finding, a failing stage, a refusal
  bool right_place = false;  ///< at the parameter or stage that the catalogue names
  std::string evidence;      ///< the finding, or the first stage that fails
};

/// Acceptance at depth 1 on the study's traces, in the reference's float32.
struct AcceptancePoint {
  bool measured = false;
  double greedy = 0;
  double expected = 0;
};

struct FaultResult {
  std::string id;
  FaultKind kind = FaultKind::head;
  Catcher caught_by = Catcher::compare;
  std::string where;
  bool effect = true;  ///< false: on this input the truth is the same with and without the fault
  Sighting audit;
  Sighting compare;
  Sighting accept;
  AcceptancePoint before;
  AcceptancePoint after;

  /// The command that must catch it.
  const Sighting& catcher() const;
  /// An effect, and the right command saw it at the right place.
  bool caught() const { return effect && catcher().seen && catcher().right_place; }
  bool missed() const { return effect && !caught(); }
};

/// Where the faults are injected, and what they are looked at with.
struct FaultStudy {
  std::filesystem::path bases;                       ///< folder of checkpoint-bf16, checkpoint-split, …
  std::function<HeadInput(const HeadConfig&)> rows;  ///< what the heads are compared on
  std::vector<TargetTrace> traces;                   ///< natural text, for the acceptance before and after
  Vector target_norm;                                ///< weight of the target's final norm
  std::filesystem::path scratch;                     ///< broken checkpoints are written here and removed
  std::function<void(std::size_t done, std::size_t total)> progress;
};

/// Weight of the target's final norm, from the bases' checkpoint-bf16. Throws Error{input} where it is not there.
Vector target_norm_of(const std::filesystem::path& bases);

/// Injects each fault, runs audit, compare and accept on it, and says what saw it where.
std::vector<FaultResult> study_faults(const FaultStudy& study, std::span<const Fault> faults);

/// Injects one fault and writes the broken checkpoint. Throws Error{usage} for a fault that is not made in files.
void inject(const Fault& fault, const std::filesystem::path& checkpoint, const std::filesystem::path& folder);

struct FaultScore {
  std::size_t caught = 0;
  std::size_t missed = 0;
  std::size_t no_effect = 0;
};
FaultScore score(std::span<const FaultResult> results);

/// The matrix as a page: a table a kind, and the score.
std::string to_markdown(std::span<const FaultResult> results, std::span<const Fault> faults);

}  // namespace mtpcheck
