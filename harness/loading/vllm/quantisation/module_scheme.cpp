#include <algorithm>
#include <array>

#include "harness/loading/formats/compressed_tensors.h"
#include "harness/loading/symbolic/python_text.h"
#include "harness/loading/symbolic/raised.h"
#include "harness/loading/vllm/quantisation/config.h"
#include "harness/loading/vllm/quantisation/patterns.h"

namespace mtpcheck::vllm {
namespace {

const Target* first_match(const QuantConfig& config, const std::string& name) {
  const auto found =
      std::ranges::find_if(config.targets, [&](const Target& target) { return equal_or_regex(name, target.name); });
  return found == config.targets.end() ? nullptr : &*found;
}

// compressed-tensors looks for a target by the module's name, by the names of what is fused in it, and by its class.
const Target* target_of(const QuantConfig& config, const std::string& module, const std::string& module_class) {
  if (const Target* target = first_match(config, module)) return target;
  const std::string own = module.substr(module.rfind('.') + 1);
  const Target* fused = nullptr;
  bool every_part = true;
  for (const std::string& projection : fused_projections(own)) {
    const Target* part = first_match(config, replace_all(module, own, projection));
    every_part = every_part && part != nullptr;
    if (fused == nullptr) fused = part;
  }
  if (fused != nullptr && every_part) return fused;
  const auto by_class = std::ranges::find_if(config.targets, [&](const Target& target) {
    return target.name.starts_with("re:") ? equal_or_regex(module_class, target.name)
                                          : lower(module_class).find(lower(target.name)) != std::string::npos;
  });
  return by_class == config.targets.end() ? nullptr : &*by_class;
}

Scheme compressed_scheme(const QuantConfig& config, const std::string& module, const std::string& module_class) {
  if (is_ignored_by_compressed_tensors(module, config.exclusions)) return {};
  const Target* target = target_of(config, module, module_class);
  return target == nullptr ? Scheme{} : target->scheme;
}

// An exclusion that splits a fused pair stops the engine while it builds the module.
template <class Decide>
Scheme or_refused(const QuantConfig& config, const Decide& decide) {
  try {
    return decide();
  } catch (const Raised& raised) {
    throw Refused{config.exclusions_key, raised.type, raised.message};
  }
}

}  // namespace

Scheme linear_scheme(const std::optional<QuantConfig>& config, const std::string& module,
                     const std::string& module_class) {
  if (!config) return {};
  return or_refused(*config, [&]() -> Scheme {
    switch (config->format) {
      case QuantConfig::Format::fp8:
        return is_layer_skipped(module, config->exclusions) ? Scheme{} : config->scheme;
      case QuantConfig::Format::modelopt:
        return is_excluded_by_modelopt(module, config->exclusions) ? Scheme{} : config->scheme;
      case QuantConfig::Format::compressed_tensors:
        return compressed_scheme(*config, module, module_class);
    }
    return {};
  });
}

Scheme head_scheme(const std::optional<QuantConfig>& config) {
  // The FP8 format quantises linear layers only, and the head is none.
  if (!config || config->format == QuantConfig::Format::fp8) return {};
  if (config->format == QuantConfig::Format::modelopt) return linear_scheme(config, "lm_head", "ParallelLMHead");
  return or_refused(*config, [&] { return compressed_scheme(*config, "lm_head", "ParallelLMHead"); });
}

Scheme expert_scheme(const std::optional<QuantConfig>& config, const std::string& module) {
  if (!config || config->format != QuantConfig::Format::compressed_tensors) {
    return linear_scheme(config, module, "RoutedExperts");
  }
  // The experts' parameters stand for linear layers: what targets "Linear" targets them too, and the first expert's
  // three projections decide for all.
  QuantConfig widened = *config;
  const auto named = [&](std::string_view name) { return std::ranges::find(widened.targets, name, &Target::name); };
  if (const auto linear = named("Linear");
      linear != widened.targets.end() && named("RoutedExperts") == widened.targets.end()) {
    widened.targets.push_back({"RoutedExperts", linear->scheme});
  }
  return or_refused(*config, [&] {
    std::array<Scheme, 3> schemes;
    std::size_t i = 0;
    for (const std::string_view projection : {"gate_proj", "up_proj", "down_proj"}) {
      schemes[i++] = compressed_scheme(widened, module + ".0." + std::string(projection), "RoutedExperts");
    }
    if (schemes[0].kind != schemes[2].kind || schemes[1].kind != schemes[2].kind) {
      throw Raised{"ValueError", "All MoE projections need to have same quantization scheme but found multiple"};
    }
    return schemes[2];
  });
}

}  // namespace mtpcheck::vllm
