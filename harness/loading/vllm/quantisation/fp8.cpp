#include <nlohmann/json.hpp>
#include <vector>

#include "harness/loading/vllm/quantisation/formats.h"

namespace mtpcheck::vllm {
namespace {

using Json = nlohmann::json;

bool truthy(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && !found->is_null() && !found->empty();
}

void read_exclusions(const Json& quant, QuantConfig& config) {
  const char* key = truthy(quant, "ignored_layers") ? "ignored_layers" : "modules_to_not_convert";
  config.exclusions_key = std::string("quantization_config.") + key;
  if (!truthy(quant, key)) return;
  if (!quant[key].is_array()) throw Refused{config.exclusions_key, "TypeError", "the exclusions are no list"};
  for (const Json& entry : quant[key]) {
    if (!entry.is_string()) throw Refused{config.exclusions_key, "TypeError", "an exclusion is no string"};
    config.exclusions.push_back(entry.get<std::string>());
  }
}

// weight_block_size, and with it the scheme.
void read_scheme(const Json& quant, const std::string& activation, Scheme& scheme) {
  if (activation != "static" && activation != "dynamic") {
    throw Refused{"quantization_config.activation_scheme", "ValueError", "Unsupported activation scheme " + activation};
  }
  const auto block = quant.find("weight_block_size");
  if (block == quant.end() || block->is_null()) {
    scheme.kind = Scheme::Kind::fp8_tensor;
    scheme.static_activation = activation == "static";
    return;
  }
  const std::string key = "quantization_config.weight_block_size";
  if (!block->is_array() || block->size() != 2) {
    throw Refused{key, "ValueError", "The quantization block size of weight must have 2 dimensions"};
  }
  if (activation != "dynamic") {
    throw Refused{"quantization_config.activation_scheme", "ValueError",
                  "The block-wise quantization only supports dynamic activation scheme"};
  }
  for (const Json& size : *block) {
    if (!size.is_number_integer() || size.get<std::int64_t>() <= 0) {
      throw Refused{key, "TypeError", "a block size is no positive number"};
    }
  }
  scheme.kind = Scheme::Kind::fp8_block;
  scheme.block_rows = (*block)[0].get<std::size_t>();
  scheme.block_cols = (*block)[1].get<std::size_t>();
}

}  // namespace

QuantConfig read_fp8(const Json& quant) {
  QuantConfig config;
  const auto activation = quant.find("activation_scheme");
  if (activation == quant.end() || !activation->is_string()) {
    throw Refused{"quantization_config.activation_scheme", "ValueError",
                  "Cannot find any of ['activation_scheme'] in the model's quantization config."};
  }
  read_exclusions(quant, config);
  read_scheme(quant, activation->get<std::string>(), config.scheme);
  return config;
}

QuantConfig read_fp8_for_mtp(const Json& quant) {
  QuantConfig config;
  const bool blocks = quant.contains("weight_block_size") && !quant["weight_block_size"].is_null();
  const auto activation = quant.find("activation_scheme");
  const bool given = !blocks && activation != quant.end() && activation->is_string();
  read_exclusions(quant, config);
  read_scheme(quant, given ? activation->get<std::string>() : "dynamic", config.scheme);
  if (quant.contains("scale_fmt") && quant["scale_fmt"] == "ue8m0") config.scheme.scale_dtype = Dtype::f8_e8m0;
  return config;
}

}  // namespace mtpcheck::vllm
