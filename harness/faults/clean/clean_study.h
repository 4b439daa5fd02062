#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/acceptance/trace/target_trace.h"
#include "harness/faults/clean/variation.h"

namespace mtpcheck {

/// What the commands say of a clean variation: everything here is a false alarm.
struct CleanResult {
  std::string name;
  std::vector<std::string> alarms;  ///< "audit: …", "compare: …", "accept: …"; empty: silent
};

struct CleanStudy {
  std::filesystem::path base;                      ///< checkpoint-bf16
  std::vector<TargetTrace> traces;                 ///< for acceptance
  std::size_t rows = 24;                           ///< random rows that are compared
  std::filesystem::path scratch;                   ///< checkpoints are written here and removed
  std::function<void(EditableCheckpoint&)> spoil;  ///< for tests of the study itself: applied to each variation
  std::function<void(std::size_t done, std::size_t total)> progress;
};

/// Writes each variation out, and looks at it
///   with audit, for the variation's rank and topology: no finding of an error or a warning;
///   with compare: the weights as vLLM's loader takes them from the variation, in float32, against the truth of the
///   plainest layout of the same weights: every stage passes;
///   with accept: the same two heads accept the same drafts, and their expected acceptance is the same to 1e-6.
/// Of a format that vLLM does not keep as stored, the head is compared in bfloat16, and may lose half a percentage
/// point.
std::vector<CleanResult> study_clean(const CleanStudy& study, std::span<const CleanVariation> variations);

std::size_t false_alarms(std::span<const CleanResult> results);

/// A section of the catalogue's page: how many variations there were of each kind, and the alarms, if any.
std::string to_markdown(std::span<const CleanVariation> variations, std::span<const CleanResult> results);

}  // namespace mtpcheck
