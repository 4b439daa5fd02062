#include "harness/loading/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "reference/tensor/error.h"

namespace mtpcheck {

std::span<const LoaderRules> loaders() {
  static constexpr std::array<LoaderRules, 2> kLoaders{
      {{"sglang", "0.5.23", plan_sglang_0_5_23, row_turn_sglang}, {"vllm", "0.33.0", plan_vllm_0_33_0}}};
  return kLoaders;
}

const LoaderRules* find_loader(std::string_view name) { return find_loader(loaders(), name); }

const LoaderRules* find_loader(std::span<const LoaderRules> among, std::string_view name) {
  const std::size_t at = name.find('@');
  const std::string_view engine = name.substr(0, at);
  const std::string_view version = at == std::string_view::npos ? std::string_view{} : name.substr(at + 1);
  const auto found = std::ranges::find_if(among, [&](const LoaderRules& rules) {
    return rules.engine == engine && (at == std::string_view::npos || rules.version == version);
  });
  return found == among.end() ? nullptr : &*found;
}

const LoaderRules& require_loader(std::string_view name) {
  if (const LoaderRules* const found = find_loader(name)) return *found;
  std::string known;
  for (const auto& rules : loaders())
    known += fmt::format("{}{}@{}", known.empty() ? "" : ", ", rules.engine, rules.version);
  throw usage_error(
      fmt::format("loader '{}' is not known; there are {} (an engine alone is its newest version)", name, known));
}

}  // namespace mtpcheck
