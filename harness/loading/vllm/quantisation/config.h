#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/loading/formats/compressed_tensors.h"
#include "harness/loading/formats/scheme.h"
#include "harness/loading/symbolic/refused.h"

namespace mtpcheck::vllm {

/// The quantisation that the draft head is built with.
struct QuantConfig {
  enum class Format : std::uint8_t { fp8, modelopt, compressed_tensors };
  Format format = Format::fp8;

  /// Of every module that is not excluded; compressed_tensors has `targets` instead.
  Scheme scheme;
  std::vector<Target> targets;

  std::vector<std::string> exclusions;  ///< as the engine compares them: translated, split
  std::string exclusions_key;           ///< where they stand in config.json

  bool fp8_blocks() const { return format == Format::fp8 && scheme.kind == Scheme::Kind::fp8_block; }
};

/// Something that the engine says while it reads the configuration.
struct ConfigWarning {
  std::string text;
};

/// What config.json's quantization_config and mtp_quant_algo come to.
struct Quantisation {
  std::optional<QuantConfig> draft;  ///< nullopt: the draft head is not quantised

  /// The model as a whole counts as quantised, whatever the draft head is: the strict check of unquantised models is
  /// off then.
  bool model_is_quantised = false;

  std::vector<ConfigWarning> warnings;
};

/// Reads the configuration as vLLM does.
///
/// num_hidden_layers, mtp_layers   to translate exclusions to the draft's names
///
/// Throws Refused where the engine refuses, and Error{input} for a quantisation that vLLM knows but these rules do not.
Quantisation read_quantisation(const nlohmann::json& config, std::size_t num_hidden_layers, std::size_t mtp_layers);

/// The scheme of a linear layer (of class `module_class`, "RowParallelLinear"), of the language model head ("lm_head")
/// or of the routed experts, by the module's name in the draft model ("model.layers.78.self_attn.o_proj"; no
/// mtp_block). Throws Refused where an exclusion splits a fused pair.
Scheme linear_scheme(const std::optional<QuantConfig>& config, const std::string& module,
                     const std::string& module_class);
Scheme head_scheme(const std::optional<QuantConfig>& config);
Scheme expert_scheme(const std::optional<QuantConfig>& config, const std::string& module);

}  // namespace mtpcheck::vllm
