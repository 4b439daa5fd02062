#include "harness/loading/sglang/quantisation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "harness/loading/symbolic/python_text.h"
#include "harness/loading/symbolic/refused.h"
#include "reference/tensor/error.h"

namespace mtpcheck::sglang {
namespace {

using nlohmann::json;

constexpr const char* kQuant = "quantization_config";

const json* member(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string text_of(const json& object, const char* key) {
  const json* const found = member(object, key);
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
}

std::vector<std::string> names_of(const json* list, const std::string& key) {
  if (list == nullptr) return {};
  if (!list->is_array()) throw Refused{key, "TypeError", "the exclusions are no list"};
  std::vector<std::string> names;
  for (const json& entry : *list) {
    if (!entry.is_string()) throw Refused{key, "AttributeError", "an exclusion is no string"};
    names.push_back(entry.get<std::string>());
  }
  return names;
}

// Each name without and with "model.", and then in the draft's words, in which the whole MTP layer is model.decoder.
void take_exclusions(const std::vector<std::string>& names, Quantisation& quantisation) {
  for (const std::string& name : names) {
    const std::string base = name.starts_with("model.") ? name.substr(6) : name;
    for (const std::string& spelling : {base, "model." + base}) {
      quantisation.exclusions.push_back(
          replace_all(replace_all(spelling, "model.mtp_layers.0", "model.decoder"), "mtp_layers.0", "model.decoder"));
    }
  }
}

// quant_method fp8: one scale a block, or one a projection.
Quantisation read_fp8(const json& quant) {
  Quantisation result;
  result.format = Quantisation::Format::fp8;
  result.kv_scales = true;
  const auto scheme = quant.find("activation_scheme");
  if (scheme == quant.end()) {
    throw Refused{"quantization_config.activation_scheme", "ValueError",
                  "Cannot find any of ['activation_scheme'] in the model's quantization config."};
  }
  const std::string activation = scheme->is_string() ? scheme->get<std::string>() : scheme->dump();
  if (activation != "static" && activation != "dynamic") {
    throw Refused{"quantization_config.activation_scheme", "ValueError", "Unsupported activation scheme " + activation};
  }
  const char* const key = quant.contains("ignored_layers") ? "ignored_layers" : "modules_to_not_convert";
  result.exclusions_key = fmt::format("{}.{}", kQuant, key);
  take_exclusions(names_of(member(quant, key), result.exclusions_key), result);
  const json* const block = member(quant, "weight_block_size");
  if (block == nullptr) {
    result.scheme.kind = Scheme::Kind::fp8_tensor;
    result.scheme.static_activation = activation == "static";
    return result;
  }
  const std::string block_key = "quantization_config.weight_block_size";
  if (!block->is_array() || block->size() != 2) {
    throw Refused{block_key, "ValueError", "The quantization block size of weight must have 2 dimensions"};
  }
  if (activation != "dynamic") {
    throw Refused{"quantization_config.activation_scheme", "ValueError",
                  "The block-wise quantization only supports dynamic activation scheme for now"};
  }
  for (const json& size : *block) {
    if (!size.is_number_integer() || size.get<std::int64_t>() <= 0) {
      throw Refused{block_key, "TypeError", "a block size is no positive number"};
    }
  }
  result.scheme.kind = Scheme::Kind::fp8_block;
  result.scheme.block_rows = (*block)[0].get<std::size_t>();
  result.scheme.block_cols = (*block)[1].get<std::size_t>();
  return result;
}

// MXFP8: groups of 32 columns, whatever group_size says. exclude_modules beats ignore, even where it is null.
Quantisation read_mxfp8(const json& quant, const json& members, const std::string& where) {
  Quantisation result;
  result.format = Quantisation::Format::fp8;
  result.kv_scales = true;
  result.scheme.kind = Scheme::Kind::mxfp8;
  result.scheme.block_rows = 1;
  result.scheme.block_cols = 32;
  if (quant.contains("ignored_layers")) {
    result.exclusions_key = "quantization_config.ignored_layers";
    take_exclusions(names_of(member(quant, "ignored_layers"), result.exclusions_key), result);
    return result;
  }
  const char* const key = members.contains("exclude_modules") ? "exclude_modules" : "ignore";
  result.exclusions_key = where + "." + key;
  take_exclusions(names_of(member(members, key), result.exclusions_key), result);
  return result;
}

Quantisation read_modelopt(const json& quant) {
  const json* const nested = member(quant, "quantization");
  const bool is_nested = nested != nullptr && nested->is_object();
  const json& members = is_nested ? *nested : quant;
  const std::string where = is_nested ? "quantization_config.quantization" : kQuant;
  const std::string algorithm = text_of(members, "quant_algo");
  if (algorithm == "MXFP8") return read_mxfp8(quant, members, where);
  if (algorithm.find("FP4") != std::string::npos && algorithm.find("NVFP4") == std::string::npos) {
    throw Refused{where + ".quant_algo", "ValueError",
                  "ModelOpt currently only supports: FP8, NVFP4, NVFP4_AWQ, W4A16_NVFP4 quantizations in sglang."};
  }
  throw input_error("config.json: ModelOpt's " + algorithm + " is not covered by these rules of SGLang's loader");
}

// A name in the list that is the module's path, the path of something that holds it, or a run of whole words in it.
bool names_module(const std::string& exclusion, const std::string& module) {
  std::string name = exclusion;
  while (name.ends_with('.')) name.pop_back();
  return contains("." + module + ".", "." + name + ".");
}

bool is_listed(const std::vector<std::string>& exclusions, const std::string& module) {
  return std::ranges::any_of(exclusions, [&](const std::string& entry) { return names_module(entry, module); });
}

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

}  // namespace

std::optional<Quantisation> read_quantisation(const json& config) {
  const json* quant = member(config, kQuant);
  if (quant == nullptr) quant = member(config, "compression_config");
  if (quant == nullptr) return std::nullopt;
  if (!quant->is_object()) throw input_error("config.json: quantization_config is no object");
  std::string method = text_of(*quant, "quant_method");
  std::ranges::transform(method, method.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (!quant->contains("quant_method") || method == "modelopt") return read_modelopt(*quant);
  if (method == "fp8" || method == "mxfp8") return read_fp8(*quant);
  throw input_error("config.json: quantization_config.quant_method \"" + method +
                    "\" is not covered by these rules of SGLang's loader");
}

Scheme scheme_of(const std::optional<Quantisation>& quantisation, const std::string& module) {
  if (!quantisation || is_skipped(*quantisation, module)) return {};
  return quantisation->scheme;
}

}  // namespace mtpcheck::sglang
