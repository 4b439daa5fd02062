#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace mtpcheck {

/// How the output gate multiplies attention's output.
enum class GateKind : std::uint8_t {
  none,         ///< gated_mla false
  elementwise,  ///< one gate a value channel: linear_gate has N·v rows
  headwise,     ///< one gate a head: linear_gate has N rows
};

/// `rope_parameters` of the config. Fields that a type does not use keep their defaults.
struct RopeParameters {
  std::string type = "default";  ///< default, linear, dynamic, yarn, llama3, …
  double theta = 10000.0;
  double factor = 1.0;
  double original_max_position_embeddings = 0;  ///< 0: max_position_embeddings
  double beta_fast = 32;
  double beta_slow = 1;
  double mscale = 1;
  double mscale_all_dim = 0;
  double attention_factor = 0;  ///< 0: derived from factor and mscale
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  bool truncate = true;  ///< YaRN: round the correction range to whole dimensions
};

/// Everything in config.json that the draft head depends on, with vLLM's defaults for what may be absent.
/// The kinds of layer are those of the MTP layer: `layer_types` and `mlp_layer_types` extended by their last entry.
struct HeadConfig {
  std::string model_type;
  std::size_t num_hidden_layers = 0;         ///< L, layers of the backbone
  std::size_t num_nextn_predict_layers = 1;  ///< MTP layers as declared; 0 is kept as written
  std::size_t hidden_size = 0;               ///< H
  std::size_t vocab_size = 0;                ///< V
  std::size_t num_attention_heads = 0;       ///< N
  std::size_t q_lora_rank = 0;               ///< Lq
  std::size_t kv_lora_rank = 0;              ///< Lkv
  std::size_t qk_nope_head_dim = 0;          ///< n
  std::size_t qk_rope_head_dim = 0;          ///< r
  std::size_t v_head_dim = 0;                ///< v

  bool sparse_attention = false;   ///< of the MTP layer: it has an indexer
  std::size_t index_n_heads = 0;   ///< h
  std::size_t index_head_dim = 0;  ///< d
  std::size_t index_topk = 0;      ///< k

  bool sparse_mlp = true;               ///< of the MTP layer: it has experts
  std::size_t n_routed_experts = 0;     ///< E
  std::size_t num_experts_per_tok = 0;  ///< K
  std::size_t n_shared_experts = 1;
  std::size_t moe_intermediate_size = 0;  ///< I
  std::size_t intermediate_size = 0;      ///< of a dense MLP
  std::size_t n_group = 1;
  std::size_t topk_group = 1;
  bool norm_topk_prob = true;
  double routed_scaling_factor = 2.827;
  double swiglu_limit = 10.0;  ///< 0: no clamp

  double rms_norm_eps = 1e-5;
  GateKind gate = GateKind::elementwise;
  bool learnable_sink = true;
  bool tie_word_embeddings = false;
  std::size_t max_position_embeddings = 0;  ///< 0: not stated
  RopeParameters rope;

  std::vector<std::string> layer_types;      ///< as written, one a backbone layer (or longer); empty: absent
  std::vector<std::string> mlp_layer_types;  ///< as written; empty: absent
};

/// Reads the keys of HY V4's config.json. Throws Error{input}, prefixed with `file`, for a key of the wrong type, a
/// missing dimension, or values that cannot be: odd rope dimensions, top-k above the experts, sizes that overflow.
HeadConfig parse_head_config(const nlohmann::json& config, const std::string& file);

}  // namespace mtpcheck
