#include "harness/loading/formats/compressed_tensors.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "harness/loading/symbolic/refused.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

using Json = nlohmann::json;

std::string text_member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool flag_member(const Json& object, const char* key, bool absent) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() ? found->get<bool>() : absent;
}

bool are_fp8(const Json& arguments) {
  return arguments.is_object() && text_member(arguments, "type") == "float" && arguments.value("num_bits", 0) == 8 &&
         flag_member(arguments, "symmetric", true);
}

// Float8 weights and activations: the only compressed-tensors schemes that these rules cover.
Scheme scheme_of_group(const Json& group, const std::string& where, std::string_view engine) {
  const Json weights = group.value("weights", Json());
  const Json inputs = group.value("input_activations", Json());
  const std::string strategy = weights.is_object() ? text_member(weights, "strategy") : "";
  const bool covered = are_fp8(weights) && !flag_member(weights, "dynamic", false) && inputs.is_object() &&
                       text_member(inputs, "type") == "float" &&
                       (strategy == "channel" || strategy == "tensor" || strategy == "block");
  if (!covered) {
    throw input_error(
        fmt::format("config.json: {} is no FP8 scheme with a scale a channel, tensor or block and quantised "
                    "activations; these rules of {}'s loader cover no other of compressed-tensors",
                    where, engine));
  }
  Scheme scheme;
  scheme.method = Scheme::Method::compressed_tensors;
  scheme.static_activation = !flag_member(inputs, "dynamic", false);
  if (strategy == "channel") {
    scheme.kind = Scheme::Kind::fp8_channel;
    if (scheme.static_activation) {
      throw Refused{where + ".input_activations", "ValueError",
                    "For FP8 Fused MoE layer, we require either per tensor or channelwise, dynamic per token "
                    "quantization."};
    }
  } else if (strategy == "tensor") {
    scheme.kind = Scheme::Kind::fp8_tensor;
  } else {
    scheme.kind = Scheme::Kind::fp8_block;
    const Json block = weights.value("block_structure", Json());
    const auto positive = [](const Json& size) { return size.is_number_integer() && size.get<std::int64_t>() > 0; };
    if (!block.is_array() || block.size() != 2 || !positive(block[0]) || !positive(block[1])) {
      throw Refused{where + ".weights.block_structure", "ValueError", "a block strategy needs a block structure"};
    }
    scheme.block_rows = block[0].get<std::size_t>();
    scheme.block_cols = block[1].get<std::size_t>();
  }
  return scheme;
}

}  // namespace

CompressedTensors read_compressed_tensors(const Json& quant, std::string_view engine) {
  CompressedTensors result;
  if (const auto ignore = quant.find("ignore"); ignore != quant.end()) {
    const std::string key = "quantization_config.ignore";
    if (!ignore->is_array()) throw Refused{key, "TypeError", "the list of ignored modules is none"};
    for (const Json& entry : *ignore) {
      if (!entry.is_string()) throw Refused{key, "TypeError", "an ignored module is no string"};
      result.ignored.push_back(entry.get<std::string>());
    }
  }
  const Json groups = quant.value("config_groups", Json::object());
  for (const auto& [name, group] : groups.items()) {
    const std::string where = "quantization_config.config_groups." + name;
    const Json targets = group.is_object() ? group.value("targets", Json()) : Json();
    if (!targets.is_array()) throw Refused{where + ".targets", "TypeError", "a group has no list of targets"};
    // A group for attention alone describes the KV cache.
    if (targets.size() == 1 && targets[0].is_string() && targets[0].get<std::string>().ends_with("Attention")) continue;
    const Scheme scheme = scheme_of_group(group, where, engine);
    for (const Json& target : targets) {
      if (target.is_string()) result.targets.push_back({target.get<std::string>(), scheme});
    }
  }
  return result;
}

bool equal_or_regex(const std::string& name, const std::string& entry) {
  if (!entry.starts_with("re:")) return entry == name;
  try {
    return std::regex_search(name, std::regex(entry.substr(3)), std::regex_constants::match_continuous);
  } catch (const std::regex_error& error) {
    throw input_error(
        fmt::format("config.json: \"{}\" is no regular expression that is understood here ({}); write the "
                    "modules' names out",
                    entry, error.what()));
  }
}

}  // namespace mtpcheck
