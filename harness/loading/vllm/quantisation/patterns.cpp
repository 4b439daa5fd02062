#include "harness/loading/vllm/quantisation/patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "harness/loading/formats/compressed_tensors.h"
#include "harness/loading/symbolic/python_text.h"
#include "harness/loading/symbolic/raised.h"

namespace mtpcheck::vllm {
namespace {

bool listed(std::span<const std::string> list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

// "[…]" at the start of `pattern`: whether `c` is in it, and how long it is. Length 0: no closing bracket.
std::pair<bool, std::size_t> in_brackets(char c, std::string_view pattern) {
  const bool negated = pattern.size() > 1 && pattern[1] == '!';
  const std::size_t first = negated ? 2 : 1;
  const std::size_t close = pattern.find(']', first + 1);
  if (close == std::string_view::npos) return {false, 0};
  bool found = false;
  for (std::size_t i = first; i < close; ++i) {
    if (i + 2 < close && pattern[i + 1] == '-') {
      found = found || (pattern[i] <= c && c <= pattern[i + 2]);
      i += 2;
    } else {
      found = found || pattern[i] == c;
    }
  }
  return {found != negated, close + 1};
}

// How many characters of the pattern stand for `c`; 0 when they do not match it.
std::size_t matches_one(char c, std::string_view pattern) {
  if (pattern.empty()) return 0;
  if (pattern.front() == '[') {
    const auto [matches, length] = in_brackets(c, pattern);
    if (length != 0) return matches ? length : 0;
  }
  return pattern.front() == '?' || pattern.front() == c ? 1 : 0;
}

// The names of a fused module's projections in place of its own.
std::vector<std::string> projection_names(const std::string& module) {
  const std::string own = module.substr(module.rfind('.') + 1);
  std::vector<std::string> names;
  for (const std::string& projection : fused_projections(own)) names.push_back(replace_all(module, own, projection));
  return names;
}

}  // namespace

std::vector<std::string> fused_projections(std::string_view module) {
  if (module == "gate_up_proj") return {"gate_proj", "up_proj"};
  if (module == "fused_qkv_a_proj") return {"q_a_proj", "kv_a_proj_with_mqa"};
  if (module == "wk_weights_proj") return {"wk", "weights_proj"};
  return {};
}

bool fnmatch(std::string_view name, std::string_view pattern) {
  std::size_t at = 0;
  std::size_t next = 0;
  std::size_t star = std::string_view::npos;  // the last "*" seen, and the name's character that it has reached
  std::size_t reached = 0;
  while (at < name.size()) {
    if (next < pattern.size() && pattern[next] == '*') {
      star = next++;
      reached = at;
    } else if (const std::size_t taken = matches_one(name[at], pattern.substr(next)); taken != 0) {
      ++at;
      next += taken;
    } else if (star != std::string_view::npos) {
      next = star + 1;
      at = ++reached;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', next) == std::string_view::npos;
}

bool is_layer_skipped(const std::string& module, std::span<const std::string> exclusions) {
  const std::vector<std::string> projections = projection_names(module);
  if (!projections.empty()) {
    if (listed(exclusions, module)) return true;
    const auto skipped =
        std::ranges::count_if(projections, [&](const std::string& name) { return listed(exclusions, name); });
    if (skipped != 0 && static_cast<std::size_t>(skipped) != projections.size()) {
      throw Raised{"ValueError",
                   fmt::format("Detected some but not all shards of {} are quantized. All shards of fused "
                               "layers to have the same precision.",
                               module)};
    }
    return skipped != 0;
  }
  if (contains(module, "experts")) {
    return std::ranges::any_of(
        exclusions, [&](const std::string& entry) { return contains(entry, "experts") && contains(entry, module); });
  }
  return listed(exclusions, module);
}

bool is_excluded_by_modelopt(const std::string& module, std::span<const std::string> exclusions) {
  if (exclusions.empty()) return false;
  if (is_layer_skipped(module, exclusions)) return true;
  const bool part = std::ranges::any_of(
      exclusions, [&](const std::string& entry) { return entry != module && contains(module, entry); });
  return part || std::ranges::any_of(exclusions, [&](const std::string& entry) { return fnmatch(module, entry); });
}

bool is_ignored_by_compressed_tensors(const std::string& module, std::span<const std::string> exclusions) {
  const auto matches = [&](const std::string& name) {
    return std::ranges::any_of(exclusions, [&](const std::string& entry) { return equal_or_regex(name, entry); });
  };
  if (matches(module)) return true;
  const std::vector<std::string> projections = projection_names(module);
  const auto ignored = std::ranges::count_if(projections, matches);
  if (ignored != 0 && static_cast<std::size_t>(ignored) != projections.size()) {
    throw Raised{"ValueError", fmt::format("Found different quantization schemes for the shards of {}. vLLM requires "
                                           "all to use the same scheme.",
                                           module)};
  }
  return ignored != 0;
}

std::vector<std::string> split_trailing_stars(std::span<const std::string> exclusions) {
  std::vector<std::string> result;
  for (const std::string& entry : exclusions) {
    if (entry.size() >= 2 && entry.back() == '*' && entry[entry.size() - 2] != '.') {
      const std::string stem = entry.substr(0, entry.size() - 1);
      result.push_back(stem);
      result.push_back(stem + ".*");
    } else {
      result.push_back(entry);
    }
  }
  return result;
}

std::vector<std::string> translate_exclusions(std::vector<std::string>& exclusions, std::size_t num_hidden_layers,
                                              std::size_t layers) {
  std::vector<std::string> added;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::string checkpoint = fmt::format("model.mtp_layers.{}.", layer);
    const std::string draft = fmt::format("model.layers.{}.", num_hidden_layers + layer);
    for (const std::string& entry : exclusions) {
      if (entry.starts_with(checkpoint)) added.push_back(draft + entry.substr(checkpoint.size()));
    }
  }
  exclusions.insert(exclusions.end(), added.begin(), added.end());
  return added;
}

}  // namespace mtpcheck::vllm
