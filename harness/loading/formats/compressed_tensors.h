#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "harness/loading/formats/scheme.h"

namespace mtpcheck {

/// compressed-tensors' config groups: the scheme of modules that match a target.
struct Target {
  std::string name;  ///< a module's name, "re:…", or a module class ("Linear")
  Scheme scheme;
};

/// quantization_config of quant_method "compressed-tensors".
struct CompressedTensors {
  std::vector<Target> targets;
  std::vector<std::string> ignored;
};

/// Throws Refused where engines refuse, and Error{input} for a scheme that is not FP8 with quantised activations, in
/// which `engine` is named.
CompressedTensors read_compressed_tensors(const nlohmann::json& quant, std::string_view engine);

/// Equal, or "re:" and a regular expression that matches a beginning of the name, as Python's re.match does. Throws
/// Error{input} for an expression that is not understood here.
bool equal_or_regex(const std::string& name, const std::string& entry);

}  // namespace mtpcheck
