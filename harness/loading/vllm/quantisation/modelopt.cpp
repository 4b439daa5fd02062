#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "harness/loading/symbolic/python_text.h"
#include "harness/loading/vllm/quantisation/formats.h"
#include "harness/loading/vllm/quantisation/patterns.h"
#include "reference/tensor/error.h"

namespace mtpcheck::vllm {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 7> kAlgorithms{
    "FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO", "NVFP4", "W4A16_NVFP4", "MXFP8", "MIXED_PRECISION"};

// The members of a ModelOpt configuration, which stand in the object itself or in its member `quantization`.
struct Source {
  const Json& members;
  std::string key;  ///< of `members` in config.json
  bool nested;
};

std::vector<std::string> exclusions(const Source& source, QuantConfig& config) {
  // The flat layout's `ignore` beats `exclude_modules`, even when it is null.
  const char* key = !source.nested && source.members.contains("ignore") ? "ignore" : "exclude_modules";
  config.exclusions_key = source.key + "." + key;
  const auto list = source.members.find(key);
  if (list == source.members.end()) return {};
  if (!list->is_array()) throw Refused{config.exclusions_key, "ValueError", "exclude_modules must be a list"};
  std::vector<std::string> result;
  for (const Json& entry : *list) {
    if (!entry.is_string()) throw Refused{config.exclusions_key, "TypeError", "an exclusion is no string"};
    result.push_back(entry.get<std::string>());
  }
  return result;
}

std::size_t group_size(const Source& source) {
  const auto found = source.members.find("group_size");
  if (found == source.members.end() || found->is_null()) return 16;
  if (found->is_number_integer() && found->get<std::int64_t>() > 0) return found->get<std::size_t>();
  std::size_t size = 0;
  if (found->is_string()) {
    const auto text = found->get<std::string>();
    std::from_chars(text.data(), text.data() + text.size(), size);
  }
  if (size == 0) throw Refused{source.key + ".group_size", "ValueError", "group_size must be an integer"};
  return size;
}

bool has_text(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() && !found->get_ref<const std::string&>().empty();
}

// Weights only: no group says how activations are quantised.
bool weight_only(const Json& quant) {
  const auto groups = quant.find("config_groups");
  if (groups == quant.end() || !groups->is_object() || groups->empty()) return false;
  return std::ranges::all_of(*groups, [](const Json& group) {
    return group.is_object() && (!group.contains("input_activations") || group["input_activations"].is_null());
  });
}

void require(const Source& source, std::initializer_list<const char*> members, const std::string& format) {
  if (!source.nested) return;
  for (const char* member : members) {
    if (!source.members.contains(member)) {
      throw Refused{source.key + "." + member, "ValueError", format + " quantization requires this field"};
    }
  }
}

Scheme scheme_of(const std::string& algorithm, const Json& quant, const Source& source) {
  Scheme scheme;
  scheme.method = Scheme::Method::modelopt;
  if (algorithm == "FP8") {
    scheme.kind = Scheme::Kind::fp8_tensor;
    scheme.static_activation = true;
  } else if (algorithm == "FP8_PER_CHANNEL_PER_TOKEN") {
    scheme.kind = Scheme::Kind::fp8_channel;
    scheme.modelopt_layout = true;
  } else if (algorithm == "FP8_PB_WO") {
    scheme.kind = Scheme::Kind::fp8_block;
    scheme.modelopt_layout = true;
  } else if (algorithm == "MXFP8") {
    scheme.kind = Scheme::Kind::mxfp8;
  } else {
    scheme.kind = Scheme::Kind::nvfp4;
    scheme.group = group_size(source);
    scheme.static_activation = true;
    scheme.activation_scale_unused = algorithm == "W4A16_NVFP4" || weight_only(quant);
  }
  return scheme;
}

}  // namespace

QuantConfig read_modelopt(const Json& quant, const std::string& method) {
  // MiniMax's spelling of MXFP8: quant_method "mxfp8", the exclusions under ignored_layers.
  if ((method == "mxfp8" || method == "modelopt_mxfp8") && !quant.contains("quantization") &&
      !has_text(quant, "quant_algo")) {
    const auto listed = quant.find("ignored_layers");
    const Json list = listed == quant.end() || listed->is_null() ? Json::array() : *listed;
    QuantConfig config = read_modelopt({{"quant_algo", "MXFP8"}, {"exclude_modules", list}}, "modelopt_mxfp8");
    config.exclusions_key = "quantization_config.ignored_layers";
    return config;
  }

  const bool nested = quant.contains("quantization");
  const std::string key = nested ? "quantization_config.quantization" : "quantization_config";
  const Source source{nested ? quant["quantization"] : quant, key, nested};
  if (!source.members.is_object()) {
    throw Refused{key, "ValueError", "Expected 'quantization' to be a dictionary in config"};
  }
  if (!has_text(source.members, "quant_algo")) {
    throw Refused{key + ".quant_algo", "ValueError", "Missing 'quant_algo' in quantization config"};
  }
  const std::string name = upper(source.members["quant_algo"].get<std::string>());

  QuantConfig config;
  config.format = QuantConfig::Format::modelopt;
  const std::vector<std::string> listed = exclusions(source, config);
  const bool fp8 = name == "FP8" || name == "FP8_PER_CHANNEL_PER_TOKEN" || name == "FP8_PB_WO";
  const bool nvfp4 = name == "NVFP4" || name == "W4A16_NVFP4";
  const bool fits = (method == "modelopt" && fp8) || (method == "modelopt_fp4" && nvfp4) ||
                    ((method == "modelopt_mxfp8" || method == "mxfp8") && name == "MXFP8");
  if (std::ranges::find(kAlgorithms, name) == kAlgorithms.end() || !fits) {
    throw Refused{key + ".quant_algo", "ValueError",
                  "ModelOpt currently only supports FP8, FP8_PER_CHANNEL_PER_TOKEN, FP8_PB_WO, NVFP4, W4A16_NVFP4, "
                  "MXFP8 and MIXED_PRECISION, not " +
                      name};
  }
  if (nvfp4) require(source, {"group_size", "kv_cache_quant_algo", "exclude_modules"}, "NVFP4");
  if (name == "MXFP8") require(source, {"kv_cache_quant_algo", "exclude_modules"}, "MXFP8");
  config.scheme = scheme_of(name, quant, source);
  config.exclusions = split_trailing_stars(listed);
  return config;
}

}  // namespace mtpcheck::vllm
