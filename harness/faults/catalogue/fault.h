#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/faults/edit/editable_checkpoint.h"
#include "reference/head/deviations.h"
#include "reference/model/config.h"
#include "reference/model/conventions.h"
#include "reference/model/input.h"
#include "reference/model/weights.h"

namespace mtpcheck {

/// Where a mistake is made.
enum class FaultKind : std::uint8_t {
  checkpoint,  ///< in the files; judged on the parameters as vLLM's loader would leave them
  loader,      ///< by a loader that reads sound files wrongly: the head runs on other weights than were meant
  head,        ///< in the head's arithmetic
  protocol,    ///< between target and draft: what is fed, and what is carried from step to step
  metric,      ///< in sampling, or in what is counted
};

std::string_view to_string(FaultKind kind);

/// The command that must catch it.
enum class Catcher : std::uint8_t { audit, compare, accept };

std::string_view to_string(Catcher catcher);

/// The mistake of a head: what it computes with instead.
struct HeadMistake {
  HeadConfig& config;
  Conventions& conventions;
  Deviations& deviations;
};

/// The mistakes of a drafter between its first and its second step.
struct StepMistakes {
  bool stale_hidden = false;           ///< the target's hidden state again, instead of the step's own (LightLLM#1402)
  bool unnormed_hidden = false;        ///< residual2 recycled instead of final_layernorm
  bool position_not_advanced = false;  ///< the same position again (vllm#47920)
  bool token_not_advanced = false;     ///< the first step's token again
  bool no_rollback = false;            ///< a rejected row stays in the caches
  bool skip_stuck = false;  ///< the indexer does not run, and its rows were not compacted (vllm#47238, #45895)
};

/// The mistakes of a protocol: what is fed to the first step, and what the second does.
struct ProtocolMistake {
  HeadInput& input;
  StepMistakes& steps;
  const Vector& target_norm;  ///< weight of the target's final norm, [H]
};

/// One fault, as data and one small function.
struct Fault {
  std::string_view id;   ///< stable, e.g. "expert-missing"
  std::string_view row;  ///< of the public list: "N14"; "" for one of our own
  FaultKind kind;
  std::string_view what;    ///< what was done, for a person
  std::string_view source;  ///< public issue or engine
  Catcher caught_by;
  std::string_view where;  ///< parameter or tensor that a finding must name, or the first stage that must fail
  std::string_view base;   ///< checkpoint of tiny-hy4 that it is injected into: bf16, split, fp8-block, mxfp8

  // Exactly one, by kind; `edit` for checkpoint and loader.
  void (*edit)(EditableCheckpoint&) = nullptr;
  void (*head)(HeadMistake&) = nullptr;
  void (*protocol)(ProtocolMistake&) = nullptr;
  /// True when the mistake shows: a check of the statistics fails under it (and holds without).
  bool (*metric)() = nullptr;
};

/// Every fault, in the order of the public list.
std::vector<Fault> fault_catalogue();

/// nullptr for an id that is not in the catalogue.
const Fault* find_fault(std::span<const Fault> faults, std::string_view id);

/// What compare must name as the likely cause of the fault of that id: completes "the candidate matches …"; empty where
/// none is listed.
std::string_view likely_cause(std::string_view fault);

// The parts of the catalogue, one file each.
std::span<const Fault> checkpoint_name_faults();
std::span<const Fault> checkpoint_scale_faults();
std::span<const Fault> checkpoint_file_faults();
std::span<const Fault> loader_faults();
std::span<const Fault> head_faults();
std::span<const Fault> protocol_faults();
std::span<const Fault> metric_faults();

}  // namespace mtpcheck
