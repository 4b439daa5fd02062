#include "harness/loading/vllm/quantisation/config.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/loading/symbolic/python_text.h"
#include "harness/loading/vllm/quantisation/formats.h"
#include "harness/loading/vllm/quantisation/patterns.h"
#include "reference/tensor/error.h"

namespace mtpcheck::vllm {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kQuant = "quantization_config";

// quant_method values that vLLM 0.33.0 accepts.
constexpr std::array<std::string_view, 29> kMethods{"awq",
                                                    "auto_awq",
                                                    "fp8",
                                                    "fbgemm_fp8",
                                                    "fp_quant",
                                                    "modelopt",
                                                    "modelopt_fp4",
                                                    "modelopt_mxfp8",
                                                    "modelopt_mixed",
                                                    "auto_gptq",
                                                    "gptq",
                                                    "gptq_marlin",
                                                    "awq_marlin",
                                                    "humming",
                                                    "compressed-tensors",
                                                    "experts_int8",
                                                    "quark",
                                                    "moe_wna16",
                                                    "torchao",
                                                    "inc",
                                                    "mxfp4",
                                                    "gpt_oss_mxfp4",
                                                    "deepseek_v4_fp8",
                                                    "online",
                                                    "fp8_per_tensor",
                                                    "fp8_per_block",
                                                    "fp8_per_channel",
                                                    "int8_per_channel_weight_only",
                                                    "nvfp4_per_token"};

const Json* object_at(const Json& config, std::string_view key) {
  const auto found = config.find(key);
  return found == config.end() || found->is_null() ? nullptr : &*found;
}

// The producer's nested layout decides the method from its own quant_algo, and knows fewer of them.
void nested_method(const Json& quant, std::string& method) {
  const Json producer = quant.value("producer", Json::object());
  const Json nested = quant.value("quantization", Json::object());
  const bool legacy = nested.is_object() && nested.contains("modelopt_quant_config");
  const bool by_modelopt = producer.is_object() && producer.contains("name") && producer["name"] == "modelopt";
  if ((!by_modelopt && !legacy) || !nested.is_object() || !nested.contains("quant_algo") ||
      nested["quant_algo"].is_null()) {
    return;
  }
  const std::string algorithm =
      upper(nested["quant_algo"].is_string() ? nested["quant_algo"].get<std::string>() : nested["quant_algo"].dump());
  if (algorithm == "FP8" || algorithm == "FP8_PER_CHANNEL_PER_TOKEN" || algorithm == "FP8_PB_WO") {
    method = "modelopt";
  } else if (algorithm == "NVFP4") {
    method = "modelopt_fp4";
  } else if (algorithm == "MIXED_PRECISION") {
    method = "modelopt_mixed";
  } else {
    throw Refused{"quantization_config.quantization.quant_algo", "ValueError",
                  "Unknown ModelOpt quant algo: " + algorithm};
  }
}

// ModelOpt's formats share the method "modelopt"; the algorithm tells them apart.
void method_by_algorithm(const Json& quant, std::string& method) {
  if (!method.starts_with("modelopt")) return;
  const auto nested = quant.find("quantization");
  if (nested != quant.end() && !nested->is_object()) return;
  const Json& holder = nested != quant.end() ? *nested : quant;
  const auto algorithm = holder.find("quant_algo");
  if (algorithm == holder.end() || !algorithm->is_string()) return;
  const std::string name = upper(algorithm->get<std::string>());
  if (name == "FP8") {
    method = "modelopt";
  } else if (name.find("FP4") != std::string::npos) {
    method = "modelopt_fp4";
  } else if (name.find("MXFP8") != std::string::npos) {
    method = "modelopt_mxfp8";
  } else if (name == "MIXED_PRECISION") {
    method = "modelopt_mixed";
  }
}

std::string method_of(const Json& quant) {
  std::string method;
  if (const auto found = quant.find("quant_method"); found != quant.end() && found->is_string()) {
    method = found->get<std::string>();
  }
  nested_method(quant, method);
  method = lower(method);
  if (const auto at = method.find("compressed_tensors"); at != std::string::npos) method[at + 10] = '-';
  method_by_algorithm(quant, method);
  return method;
}

std::optional<QuantConfig> backbone_config(const Json& config, bool& quantised) {
  const Json* quant = object_at(config, kQuant);
  if (quant == nullptr) quant = object_at(config, "compression_config");
  if (quant == nullptr) return std::nullopt;
  if (!quant->is_object()) throw input_error("config.json: quantization_config is no object");
  const std::string method = method_of(*quant);
  if (method.empty()) return std::nullopt;
  quantised = true;
  if (method == "fp8") return read_fp8(*quant);
  if (method == "modelopt" || method == "modelopt_fp4" || method == "modelopt_mxfp8" || method == "mxfp8") {
    return read_modelopt(*quant, method);
  }
  if (method == "compressed-tensors") {
    CompressedTensors read = read_compressed_tensors(*quant, "vLLM");
    QuantConfig draft;
    draft.format = QuantConfig::Format::compressed_tensors;
    draft.exclusions_key = "quantization_config.ignore";
    draft.exclusions = std::move(read.ignored);
    draft.targets = std::move(read.targets);
    return draft;
  }
  if (std::ranges::find(kMethods, method) == kMethods.end()) {
    throw Refused{"quantization_config.quant_method", "ValueError", "Unknown quantization method: " + method};
  }
  throw input_error("config.json: quantization_config.quant_method \"" + method +
                    "\" is one that vLLM knows, but these rules of its loader do not cover it");
}

}  // namespace

Quantisation read_quantisation(const Json& config, std::size_t num_hidden_layers, std::size_t mtp_layers) {
  Quantisation result;
  result.draft = backbone_config(config, result.model_is_quantised);

  const Json* algorithm = object_at(config, "mtp_quant_algo");
  if (algorithm != nullptr && !algorithm->is_string()) {
    throw Refused{"mtp_quant_algo", "AttributeError", "mtp_quant_algo is no string"};
  }
  const std::string name = algorithm == nullptr ? "NONE" : upper(algorithm->get<std::string>());
  if (name == "BF16" || name == "FP16") {
    result.draft.reset();
  } else if (name == "FP8") {
    const Json* quant = object_at(config, kQuant);
    result.draft = read_fp8_for_mtp(quant == nullptr ? Json::object() : *quant);
  } else if (name != "NONE") {
    result.warnings.push_back({"Unknown mtp_quant_algo=" + name + ", falling back to the backbone config."});
  }

  // compressed-tensors' list is called `ignore`, which the translation does not know.
  if (result.draft && result.draft->format != QuantConfig::Format::compressed_tensors) {
    translate_exclusions(result.draft->exclusions, num_hidden_layers, mtp_layers);
  }
  return result;
}

}  // namespace mtpcheck::vllm
