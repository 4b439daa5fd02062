#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The ways in which vLLM 0.33.0 compares a module's name with an exclusion list. Each format has its own.
namespace mtpcheck::vllm {

/// The checkpoint's names of the projections that a fused module holds; empty for any other module.
std::vector<std::string> fused_projections(std::string_view module);

/// fnmatch with `*`, `?`, `[abc]`, `[!abc]`, over the whole name.
bool fnmatch(std::string_view name, std::string_view pattern);

/// FP8's exclusion: whole names; a fused module also when all its projections are listed; experts when any entry that
/// mentions experts *contains* the module's name (so one listed expert excludes them all).
/// Throws Raised where only some projections of a fused module are listed.
bool is_layer_skipped(const std::string& module, std::span<const std::string> exclusions);

/// ModelOpt's: as above, or an entry that is part of the module's name, or one that matches it as a file pattern.
bool is_excluded_by_modelopt(const std::string& module, std::span<const std::string> exclusions);

/// compressed-tensors' exclusion: an entry for the module, or one for every projection of a fused module.
/// Throws Raised where only some projections match.
bool is_ignored_by_compressed_tensors(const std::string& module, std::span<const std::string> exclusions);

/// What loading the target does to ModelOpt's list: "name*" becomes "name" and "name.*".
std::vector<std::string> split_trailing_stars(std::span<const std::string> exclusions);

/// Adds the draft's names of entries that begin with `model.mtp_layers.N.`, N below `layers`. Returns what was added.
std::vector<std::string> translate_exclusions(std::vector<std::string>& exclusions, std::size_t num_hidden_layers,
                                              std::size_t layers);

}  // namespace mtpcheck::vllm
