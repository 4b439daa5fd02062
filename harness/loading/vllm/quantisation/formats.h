#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "harness/loading/vllm/quantisation/config.h"

/// The readers of config.json's quantization_config, one a format. Each throws Refused where vLLM's own raises.
namespace mtpcheck::vllm {

/// quant_method "fp8".
QuantConfig read_fp8(const nlohmann::json& quant);

/// The FP8 configuration that mtp_quant_algo "FP8" makes from the same object, whatever its quant_method is.
QuantConfig read_fp8_for_mtp(const nlohmann::json& quant);

/// quant_method "modelopt" and its relatives; `method` is modelopt, modelopt_fp4, modelopt_mxfp8 or mxfp8.
QuantConfig read_modelopt(const nlohmann::json& quant, const std::string& method);

}  // namespace mtpcheck::vllm
