#include "harness/loading/meaning/declared_quantisation.h"

#include <nlohmann/json.hpp>
#include <string>

namespace mtpcheck {
namespace {

using Json = nlohmann::json;

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<BlockSize> block_at(const Json& object, const char* key) {
  const auto block = object.find(key);
  if (block == object.end() || !block->is_array() || block->size() != 2) return std::nullopt;
  BlockSize size{};
  for (std::size_t i = 0; i < 2; ++i) {
    if (!block->at(i).is_number_unsigned() || block->at(i) == 0) return std::nullopt;
    size[i] = block->at(i).get<std::size_t>();
  }
  return size;
}

DeclaredQuantisation modelopt(const Json& quantisation) {
  const std::string algorithm = text_at(quantisation, "quant_algo");
  if (algorithm == "MXFP8") return {QuantLayout::mx, {}};
  if (algorithm == "FP8") return {QuantLayout::per_tensor, {}};
  if (algorithm == "NVFP4") return {QuantLayout::nvfp4, {}};
  return {};
}

DeclaredQuantisation compressed_tensors(const Json& quantisation) {
  const auto groups = quantisation.find("config_groups");
  if (groups == quantisation.end() || !groups->is_object() || groups->size() != 1) return {};
  const Json& group = *groups->begin();
  if (!group.is_object()) return {};
  const auto weights = group.find("weights");
  if (weights == group.end() || !weights->is_object()) return {};
  const std::string strategy = text_at(*weights, "strategy");
  if (strategy == "channel") return {QuantLayout::per_channel, {}};
  if (strategy == "tensor") return {QuantLayout::per_tensor, {}};
  if (strategy == "block") return {QuantLayout::block, block_at(*weights, "block_structure")};
  return {};
}

}  // namespace

DeclaredQuantisation declared_quantisation(const Json& config) {
  if (!config.is_object()) return {};
  const auto quantisation = config.find("quantization_config");
  if (quantisation == config.end() || !quantisation->is_object()) return {};
  if (const auto block = block_at(*quantisation, "weight_block_size")) return {QuantLayout::block, block};
  const std::string method = text_at(*quantisation, "quant_method");
  if (method == "modelopt") return modelopt(*quantisation);
  if (method == "compressed-tensors") return compressed_tensors(*quantisation);
  return {};
}

}  // namespace mtpcheck
