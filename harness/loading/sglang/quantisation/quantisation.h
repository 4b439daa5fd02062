#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/loading/formats/compressed_tensors.h"
#include "harness/loading/formats/scheme.h"

namespace mtpcheck::sglang {

/// What config.json's quantization_config comes to for SGLang's draft head. mtp_quant_algo is not read.
struct Quantisation {
  enum class Format : std::uint8_t { fp8, modelopt, compressed_tensors };
  Format format = Format::fp8;
  Scheme scheme;  ///< of every module that is not excluded; compressed_tensors has `targets`
  std::vector<Target> targets;
  std::vector<std::string> exclusions;  ///< as they are compared: with and without "model.", translated to the draft
  std::string exclusions_key;           ///< where they stand in config.json
  bool kv_scales = false;               ///< attention has parameters for the KV cache's scales
};

/// Reads the configuration as SGLang does; nullopt where nothing is quantised.
///
/// Throws Refused where the engine refuses, and Error{input} for a quantisation that SGLang knows but these rules do
/// not.
std::optional<Quantisation> read_quantisation(const nlohmann::json& config);

/// The scheme of a linear layer or of the experts. Throws Refused where an exclusion splits gate and up.
///
/// module        ".model.decoder.self_attn.o_proj": SGLang's draft model has an empty prefix before the first dot
/// module_class  "RowParallelLinear", …, or "FusedMoE"
Scheme scheme_of(const std::optional<Quantisation>& quantisation, const std::string& module,
                 const std::string& module_class);

}  // namespace mtpcheck::sglang
