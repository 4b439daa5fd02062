#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "harness/checkpoint/header_set.h"
#include "harness/loading/meaning/logical_weights.h"
#include "reference/model/config.h"

namespace mtpcheck {

/// For tests: headers of a small checkpoint, split and unquantised, to be edited.
struct TinyCheckpoint {
  nlohmann::json json = nlohmann::json::parse(R"({
    "num_hidden_layers": 3, "num_nextn_predict_layers": 1, "hidden_size": 256, "vocab_size": 97,
    "num_attention_heads": 4, "q_lora_rank": 128, "kv_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
    "v_head_dim": 32, "layer_types": ["sparse_attention", "sparse_attention", "sparse_attention"],
    "index_n_heads": 2, "index_head_dim": 32, "index_topk": 4, "mlp_layer_types": ["dense", "sparse", "sparse"],
    "n_routed_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 64})");
  HeaderSet headers;

  HeadConfig config() const { return parse_head_config(json, "config.json"); }

  /// Fills `headers` for the config.
  void fill() {
    add("model.embed_tokens.weight", {97, 256});
    add("lm_head.weight", {97, 256});
    const HeadConfig c = config();
    for (std::size_t layer = 0; layer < std::max<std::size_t>(c.num_nextn_predict_layers, 1); ++layer) {
      for (const LogicalWeight& weight : logical_weights(c)) {
        if (weight.name == "lm_head") continue;
        add("model.mtp_layers." + std::to_string(layer) + "." + weight.sources.front().tensor,
            weight.cols == 0 ? Shape{weight.rows} : Shape{weight.rows, weight.cols});
      }
    }
  }

  TensorView& add(std::string name, Shape shape, Dtype dtype = Dtype::bf16) {
    return headers.tensors.emplace_back(TensorView{std::move(name), dtype, std::move(shape), {}, "m.safetensors", 0});
  }

  TensorView& at(const std::string& name) {
    for (TensorView& tensor : headers.tensors) {
      if (tensor.name == name || tensor.name == "model.mtp_layers.0." + name) return tensor;
    }
    throw std::out_of_range(name);
  }

  void drop(const std::string& name) {
    const TensorView* const found = &at(name);
    headers.tensors.erase(headers.tensors.begin() + (found - headers.tensors.data()));
  }
};

}  // namespace mtpcheck
