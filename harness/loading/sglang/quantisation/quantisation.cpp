#include "harness/loading/sglang/quantisation/quantisation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "harness/loading/symbolic/python_text.h"
#include "harness/loading/symbolic/refused.h"
#include "reference/tensor/error.h"

namespace mtpcheck::sglang {
namespace {

using Json = nlohmann::json;

constexpr const char* kQuant = "quantization_config";

// quant_method values that SGLang 0.5.23 knows on NVIDIA's devices beside those that are read here.
constexpr std::array<std::string_view, 21> kOtherMethods{
    "minimax_m3_nvfp4", "blockwise_int8",  "modelopt_fp8", "modelopt_fp4", "nvfp4_online", "modelopt_mixed",
    "w8a8_int8",        "w8a8_fp8",        "awq",          "awq_marlin",   "bitsandbytes", "gguf",
    "gptq_marlin",      "moe_wna16",       "w4afp8",       "petit_nvfp4",  "quark",        "quark_mxfp4",
    "auto-round",       "auto-round-int8", "humming"};

const Json* member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string text_of(const Json& object, const char* key) {
  const Json* const found = member(object, key);
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
}

std::vector<std::string> names_of(const Json* list, const std::string& key) {
  if (list == nullptr) return {};
  if (!list->is_array()) throw Refused{key, "TypeError", "the exclusions are no list"};
  std::vector<std::string> names;
  for (const Json& entry : *list) {
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

constexpr std::size_t kMxGroup = 32;

// quant_method fp8: one scale a block, or one a projection; quant_method mxfp8: groups of 32 columns, whatever it says.
Quantisation read_fp8(const Json& quant, bool mxfp8) {
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
  const Json* const block = member(quant, "weight_block_size");
  if (mxfp8 && activation == "dynamic") {
    result.scheme = {.kind = Scheme::Kind::mxfp8, .block_rows = 1, .block_cols = kMxGroup};
    return result;
  }
  if (block == nullptr && !mxfp8) {
    result.scheme.kind = Scheme::Kind::fp8_tensor;
    result.scheme.static_activation = activation == "static";
    return result;
  }
  const std::string block_key = "quantization_config.weight_block_size";
  if (!mxfp8 && (!block->is_array() || block->size() != 2)) {
    throw Refused{block_key, "ValueError", "The quantization block size of weight must have 2 dimensions"};
  }
  if (activation != "dynamic") {
    throw Refused{"quantization_config.activation_scheme", "ValueError",
                  "The block-wise quantization only supports dynamic activation scheme for now"};
  }
  for (const Json& size : *block) {
    if (!size.is_number_integer() || size.get<std::int64_t>() <= 0) {
      throw Refused{block_key, "TypeError", "a block size is no positive number"};
    }
  }
  result.scheme.kind = Scheme::Kind::fp8_block;
  result.scheme.block_rows = (*block)[0].get<std::size_t>();
  result.scheme.block_cols = (*block)[1].get<std::size_t>();
  return result;
}

// ModelOpt's MXFP8. exclude_modules beats ignore, even where it is null; with neither, FP8's own list counts.
Quantisation read_mxfp8(const Json& quant, const Json& members, const std::string& where) {
  Quantisation result;
  result.format = Quantisation::Format::fp8;
  result.kv_scales = true;
  result.scheme = {.kind = Scheme::Kind::mxfp8, .block_rows = 1, .block_cols = kMxGroup};
  if (quant.contains("ignored_layers")) {
    result.exclusions_key = "quantization_config.ignored_layers";
    take_exclusions(names_of(member(quant, "ignored_layers"), result.exclusions_key), result);
    return result;
  }
  const char* const key = members.contains("exclude_modules") ? "exclude_modules" : "ignore";
  const Json* const list = member(members, key);
  result.exclusions_key = list == nullptr ? "quantization_config.modules_to_not_convert" : where + "." + key;
  take_exclusions(names_of(list == nullptr ? member(quant, "modules_to_not_convert") : list, result.exclusions_key),
                  result);
  return result;
}

// A float of 8 bits for the KV cache; `otherwise` where it says nothing of it.
bool has_kv_scales(const Json& quant, bool otherwise) {
  const Json* const scheme = member(quant, "kv_cache_scheme");
  if (scheme != nullptr && scheme->is_object()) {
    return otherwise || (text_of(*scheme, "type") == "float" && scheme->value("num_bits", 0) == 8);
  }
  return otherwise || !text_of(quant, "kv_cache_quant_algo").empty();
}

// group_size, that of the first group's weights, or 16.
std::size_t group_size(const Json& quant) {
  const Json* size = member(quant, "group_size");
  const Json* const groups = member(quant, "config_groups");
  if (size == nullptr && groups != nullptr && groups->is_object() && !groups->empty()) {
    const Json* const weights = member(groups->begin().value(), "weights");
    size = weights == nullptr ? nullptr : member(*weights, "group_size");
  }
  if (size == nullptr) return 16;
  if (size->is_number_unsigned() && size->get<std::size_t>() > 0) return size->get<std::size_t>();
  throw Refused{"quantization_config.group_size", "TypeError", "the group size is no positive number"};
}

// FP8 a tensor and NVFP4: their own lists are read from the object itself, also where it has a nested one.
Quantisation read_modelopt_format(const Json& quant, const std::string& algorithm) {
  Quantisation result;
  result.format = Quantisation::Format::modelopt;
  result.scheme.method = Scheme::Method::modelopt;
  result.scheme.static_activation = true;
  const char* key = "ignore";
  if (algorithm == "FP8") {
    result.scheme.kind = Scheme::Kind::fp8_tensor;
    result.kv_scales = has_kv_scales(quant, false);
  } else {
    result.scheme.kind = Scheme::Kind::nvfp4;
    result.scheme.group = group_size(quant);
    result.scheme.activation_scale_unused = algorithm == "W4A16_NVFP4";
    result.kv_scales = true;
    for (const char* other : {"modules_to_not_convert", "exclude_modules"}) {
      if (!quant.contains(key)) key = other;
    }
    if (quant.contains(key) && quant[key].is_null()) {
      throw Refused{fmt::format("{}.{}", kQuant, key), "ValueError",
                    "NVFP4 quantization requires group_size and exclude_modules specified in the quantization config"};
    }
  }
  result.exclusions_key = fmt::format("{}.{}", kQuant, key);
  result.exclusions = names_of(member(quant, key), result.exclusions_key);
  return result;
}

// The algorithm stands in the object itself or in its member `quantization`.
Quantisation read_modelopt(const Json& quant) {
  const Json* const nested = member(quant, "quantization");
  const bool is_nested = nested != nullptr && nested->is_object();
  const Json& members = is_nested ? *nested : quant;
  const std::string where = is_nested ? "quantization_config.quantization" : kQuant;
  const std::string algorithm = text_of(members, "quant_algo");
  if (algorithm == "MXFP8") return read_mxfp8(quant, members, where);
  if (algorithm == "FP8" || algorithm == "NVFP4" || algorithm == "W4A16_NVFP4") {
    return read_modelopt_format(quant, algorithm);
  }
  if (algorithm == "NVFP4_AWQ" || algorithm == "MIXED_PRECISION") {
    throw input_error("config.json: SGLang knows ModelOpt's " + algorithm +
                      ", but these rules of its loader do not cover it");
  }
  if (contains(algorithm, "FP4")) {
    throw Refused{where + ".quant_algo", "ValueError",
                  "ModelOpt currently only supports: FP8, NVFP4, NVFP4_AWQ, W4A16_NVFP4 quantizations in sglang."};
  }
  throw Refused{where + ".quant_algo", "ValueError",
                fmt::format("ModelOptFp8Config only supports regular FP8 quantization, but found '{}'.", algorithm)};
}

Quantisation read_compressed(const Json& quant) {
  CompressedTensors read = read_compressed_tensors(quant, "SGLang");
  Quantisation result;
  result.format = Quantisation::Format::compressed_tensors;
  result.exclusions_key = "quantization_config.ignore";
  result.exclusions = std::move(read.ignored);
  result.targets = std::move(read.targets);
  const Json* const cache = member(quant, "kv_cache_scheme");
  result.kv_scales =
      cache != nullptr && cache->is_object() && text_of(*cache, "type") == "float" && cache->value("num_bits", 0) == 8;
  return result;
}

}  // namespace

std::optional<Quantisation> read_quantisation(const Json& config) {
  const Json* quant = member(config, kQuant);
  if (quant == nullptr) quant = member(config, "compression_config");
  if (quant == nullptr) return std::nullopt;
  if (!quant->is_object()) throw input_error("config.json: quantization_config is no object");
  std::string method = text_of(*quant, "quant_method");
  method = lower(method);
  if (!quant->contains("quant_method") || method == "modelopt") return read_modelopt(*quant);
  if (method == "fp8" || method == "mxfp8") return read_fp8(*quant, method == "mxfp8");
  if (method == "compressed-tensors") return read_compressed(*quant);
  if (std::ranges::find(kOtherMethods, method) == kOtherMethods.end()) {
    throw Refused{"quantization_config.quant_method", "ValueError", "Unknown quantization method: " + method};
  }
  throw input_error("config.json: quantization_config.quant_method \"" + method +
                    "\" is one that SGLang knows, but these rules of its loader do not cover it");
}

}  // namespace mtpcheck::sglang
