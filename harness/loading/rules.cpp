#include "harness/loading/rules.h"

#include <algorithm>
#include <array>

namespace mtpcheck {

std::span<const LoaderRules> loaders() {
  static constexpr std::array<LoaderRules, 1> kLoaders{{{"vllm", "0.33.0", plan_vllm_0_33_0}}};
  return kLoaders;
}

const LoaderRules* find_loader(std::string_view name) {
  const std::size_t at = name.find('@');
  const std::string_view engine = name.substr(0, at);
  const std::string_view version = at == std::string_view::npos ? std::string_view{} : name.substr(at + 1);
  const auto found = std::ranges::find_if(loaders(), [&](const LoaderRules& rules) {
    return rules.engine == engine && (at == std::string_view::npos || rules.version == version);
  });
  return found == loaders().end() ? nullptr : &*found;
}

}  // namespace mtpcheck
