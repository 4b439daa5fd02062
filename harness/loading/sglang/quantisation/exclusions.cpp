#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "harness/loading/sglang/quantisation/quantisation.h"
#include "harness/loading/symbolic/python_text.h"
#include "harness/loading/symbolic/refused.h"
#include "reference/tensor/error.h"

/// Which modules a list of exclusions means; each format has its own way to compare names.
namespace mtpcheck::sglang {
namespace {

constexpr const char* kExperts = "FusedMoE";

std::string last_word(const std::string& path) { return path.substr(path.rfind('.') + 1); }

// A name in the list that is the module's path, the path of something that holds it, or a run of whole words in it.
bool names_module(const std::string& exclusion, const std::string& module) {
  std::string name = exclusion;
  while (name.ends_with('.')) name.pop_back();
  return contains("." + module + ".", "." + name + ".");
}

bool is_listed(const std::vector<std::string>& exclusions, const std::string& module) {
  return std::ranges::any_of(exclusions, [&](const std::string& entry) { return names_module(entry, module); });
}

// FP8 and MXFP8, and where ModelOpt begins. The only fused module that SGLang takes apart for it is gate_up_proj.
bool is_skipped(const Quantisation& quantisation, const std::string& module) {
  const std::vector<std::string>& exclusions = quantisation.exclusions;
  if (module.ends_with(".gate_up_proj")) {
    const bool gate = is_listed(exclusions, replace_all(module, "gate_up_proj", "gate_proj"));
    const bool up = is_listed(exclusions, replace_all(module, "gate_up_proj", "up_proj"));
    if (gate != up) {
      throw Refused{quantisation.exclusions_key, "ValueError",
                    fmt::format("Detected some but not all shards of {} are quantized. All shards of fused layers to "
                                "have the same precision.",
                                module)};
    }
    return gate;
  }
  if (is_listed(exclusions, module)) return true;
  return contains(module, "experts") && std::ranges::any_of(exclusions, [&](const std::string& entry) {
           return contains(entry, "experts") && contains(entry, module);
         });
}

// ModelOpt's second look: an entry is a pattern for the whole path or for one word of it, with * for anything; and some
// projections are recognised inside a fused module's name.
bool is_excluded(const Quantisation& quantisation, const std::string& module) {
  for (const std::string& entry : quantisation.exclusions) {
    std::regex pattern;
    try {
      pattern = std::regex(replace_all(replace_all(entry, ".", "\\."), "*", ".*"));
    } catch (const std::regex_error& error) {
      throw input_error(fmt::format("config.json: \"{}\" in {} is no pattern that is understood here ({})", entry,
                                    quantisation.exclusions_key, error.what()));
    }
    if (std::regex_match(module, pattern)) return true;
    for (std::size_t begin = 0; begin <= module.size();) {
      const std::size_t end = std::min(module.find('.', begin), module.size());
      if (std::regex_match(module.substr(begin, end - begin), pattern)) return true;
      begin = end + 1;
    }
    const std::string tail = last_word(entry);
    const bool known = tail == "q_a_proj" || tail == "q_b_proj" || tail == "kv_a_proj_with_mqa" || tail == "kv_b_proj";
    if (known && contains(last_word(module), tail)) return true;
  }
  return false;
}

// compressed-tensors: equal, the end of the path, or a regular expression.
bool is_ignored(const Quantisation& quantisation, const std::string& module) {
  const auto matches = [&](const std::string& name) {
    return std::ranges::any_of(quantisation.exclusions, [&](const std::string& entry) {
      return equal_or_regex(name, entry) || (!entry.starts_with("re:") && name.ends_with("." + entry));
    });
  };
  const bool fused = last_word(module) == "gate_up_proj" && std::ranges::count(quantisation.exclusions, module) == 0;
  if (!fused) return matches(module);
  const bool gate = matches(replace_all(module, "gate_up_proj", "gate_proj"));
  if (gate != matches(replace_all(module, "gate_up_proj", "up_proj"))) {
    throw Refused{
        quantisation.exclusions_key, "ValueError",
        fmt::format("Found different quantization schemes for ['gate_proj', 'up_proj'] in {}. SGLang requires "
                    "all to use the same scheme.",
                    module)};
  }
  return gate;
}

// The first target that is the module's name, or else one that its class's name contains. "Linear" means experts too.
Scheme targeted(const Quantisation& quantisation, const std::string& module, const std::string& module_class) {
  if (is_ignored(quantisation, module)) return {};
  if (quantisation.targets.empty()) return {};
  for (const Target& target : quantisation.targets) {
    if (equal_or_regex(module, target.name)) return target.scheme;
  }
  for (const Target& target : quantisation.targets) {
    const bool linear = module_class == kExperts && target.name == "Linear";
    const bool of_class = !target.name.starts_with("re:") && contains(lower(module_class), lower(target.name));
    if (linear || of_class || (target.name.starts_with("re:") && equal_or_regex(module_class, target.name))) {
      return target.scheme;
    }
  }
  throw Refused{"quantization_config.config_groups", "ValueError",
                "Unable to find matching target for " + module + " in the compressed-tensors config."};
}

Scheme targeted_experts(const Quantisation& quantisation, const std::string& module) {
  const Scheme gate = targeted(quantisation, module + ".0.gate_proj", kExperts);
  const Scheme up = targeted(quantisation, module + ".0.up_proj", kExperts);
  const Scheme down = targeted(quantisation, module + ".0.down_proj", kExperts);
  if (gate.kind != up.kind || gate.kind != down.kind) {
    throw Refused{quantisation.exclusions_key, "ValueError",
                  "All MoE projections need to have same quantization scheme but found multiple"};
  }
  return gate;
}

}  // namespace

Scheme scheme_of(const std::optional<Quantisation>& quantisation, const std::string& module,
                 const std::string& module_class) {
  if (!quantisation) return {};
  const bool experts = module_class == kExperts;
  switch (quantisation->format) {
    case Quantisation::Format::fp8:
      return is_skipped(*quantisation, module) ? Scheme{} : quantisation->scheme;
    case Quantisation::Format::modelopt: {
      const bool skipped = !experts && is_skipped(*quantisation, module);
      return skipped || is_excluded(*quantisation, module) ? Scheme{} : quantisation->scheme;
    }
    case Quantisation::Format::compressed_tensors:
      return experts ? targeted_experts(*quantisation, module) : targeted(*quantisation, module, module_class);
  }
  return {};
}

}  // namespace mtpcheck::sglang
