#pragma once

#include <filesystem>

#include "harness/acceptance/trace/target_trace.h"

namespace mtpcheck {

/// Reads a trace from a safetensors or HDF5 file (by its first bytes, not its name):
///
///   input_ids, positions   integers [T]
///   target_hidden          any float type [T, H]
///   target_logits          float32 [T, V]; or `top_ids` integers [T, N] with `top_log_probabilities` float32 [T, N],
///                          and `remaining_mass` float32 [T], what the other tokens share (absent: 1 − Σ of the N)
///   metadata (attributes)  prompt_length; generated: greedy or sampled (absent: natural text); temperature; vocab_size
///                          (with top_ids)
///
/// A safetensors file's logits stay in the mapping. Throws Error{input} that names file and tensor for what is missing
/// or of the wrong type or rank; values are checked by `check_trace`.
TargetTrace read_target_trace(const std::filesystem::path& path);

}  // namespace mtpcheck
