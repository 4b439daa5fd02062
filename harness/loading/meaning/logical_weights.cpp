#include "harness/loading/meaning/logical_weights.h"

#include <fmt/format.h>

#include <utility>

namespace mtpcheck {
namespace {

WeightSource plain(const std::string& stem) { return {stem + ".weight", stem, false, {}, {}, 0}; }

WeightSource fused(const std::string& stem, std::vector<std::size_t> part_rows, std::size_t part) {
  return {stem + ".weight", stem, false, {}, std::move(part_rows), part};
}

WeightSource shared(const std::string& stem) { return {stem + ".weight", stem, true, {}, {}, 0}; }

class Layer {
 public:
  explicit Layer(const HeadConfig& config) : c_(config) {}

  std::vector<LogicalWeight> weights() && {
    norms();
    attention();
    if (c_.sparse_attention) indexer();
    if (c_.sparse_mlp) {
      router();
      for (std::size_t expert = 0; expert < c_.n_routed_experts; ++expert) routed_expert(expert);
      if (c_.n_shared_experts > 0) shared_experts();
    } else {
      dense_mlp();
    }
    lm_head();
    return std::move(all_);
  }

 private:
  using MatrixPlace = Matrix* (*)(LayerWeights&, std::size_t);
  using VectorPlace = Vector* (*)(LayerWeights&);

  LogicalWeight& matrix(const std::string& name, std::size_t rows, std::size_t cols, MatrixPlace place) {
    all_.push_back({name, rows, cols, {plain(name)}, {}, place, nullptr, 0});
    return all_.back();
  }

  // A vector's name is the whole name of its tensor.
  LogicalWeight& vector(const std::string& tensor, std::size_t length, VectorPlace place) {
    all_.push_back({tensor, length, 0, {{tensor, tensor, false, {}, {}, 0}}, {}, nullptr, place, 0});
    return all_.back();
  }

  static WeightSource named(const char* tensor) { return {tensor, tensor, false, {}, {}, 0}; }

  void norms() {
    vector("enorm.weight", c_.hidden_size, [](LayerWeights& w) { return &w.enorm; });
    vector("hnorm.weight", c_.hidden_size, [](LayerWeights& w) { return &w.hnorm; });
    matrix("eh_proj", c_.hidden_size, 2 * c_.hidden_size, [](LayerWeights& w, std::size_t) { return &w.eh_proj; });
    vector("input_layernorm.weight", c_.hidden_size, [](LayerWeights& w) { return &w.input_layernorm; });
    vector("post_attention_layernorm.weight", c_.hidden_size,
           [](LayerWeights& w) { return &w.post_attention_layernorm; });
    vector("final_layernorm.weight", c_.hidden_size, [](LayerWeights& w) {
      return &w.final_layernorm;
    }).fallbacks.push_back(named("shared_head.norm.weight"));  // DeepSeek's name
  }

  void attention() {
    const std::size_t heads = c_.num_attention_heads;
    const std::vector<std::size_t> latents{c_.q_lora_rank, c_.kv_lora_rank + c_.qk_rope_head_dim};
    matrix("self_attn.q_a_proj", latents[0], c_.hidden_size, [](LayerWeights& w, std::size_t) {
      return &w.q_a_proj;
    }).sources.push_back(fused("self_attn.fused_qkv_a_proj", latents, 0));
    matrix("self_attn.kv_a_proj_with_mqa", latents[1], c_.hidden_size, [](LayerWeights& w, std::size_t) {
      return &w.kv_a_proj;
    }).sources.push_back(fused("self_attn.fused_qkv_a_proj", latents, 1));
    vector("self_attn.q_a_layernorm.weight", c_.q_lora_rank, [](LayerWeights& w) { return &w.q_a_layernorm; });
    vector("self_attn.kv_a_layernorm.weight", c_.kv_lora_rank, [](LayerWeights& w) { return &w.kv_a_layernorm; });
    matrix("self_attn.q_b_proj", heads * (c_.qk_nope_head_dim + c_.qk_rope_head_dim), c_.q_lora_rank,
           [](LayerWeights& w, std::size_t) { return &w.q_b_proj; });
    matrix("self_attn.kv_b_proj", heads * (c_.qk_nope_head_dim + c_.v_head_dim), c_.kv_lora_rank,
           [](LayerWeights& w, std::size_t) { return &w.kv_b_proj; });
    matrix("self_attn.o_proj", c_.hidden_size, heads * c_.v_head_dim,
           [](LayerWeights& w, std::size_t) { return &w.o_proj; });
    if (c_.gate != GateKind::none) {
      const std::size_t rows = c_.gate == GateKind::headwise ? heads : heads * c_.v_head_dim;
      matrix("self_attn.linear_gate", rows, c_.hidden_size, [](LayerWeights& w, std::size_t) {
        return &w.linear_gate;
      }).sources.push_back(plain("self_attn.gate_proj"));  // transformers' name
    }
    if (c_.learnable_sink) {
      vector("self_attn.learnable_sink_param", heads, [](LayerWeights& w) {
        return &w.sink;
      }).sources.push_back(named("self_attn.sinks"));  // transformers' name
    }
  }

  void indexer() {
    const std::vector<std::size_t> parts{c_.index_head_dim, c_.index_n_heads};
    matrix("self_attn.indexer.wq_b", c_.index_n_heads * c_.index_head_dim, c_.q_lora_rank,
           [](LayerWeights& w, std::size_t) { return &w.indexer->wq_b; });
    matrix("self_attn.indexer.wk", parts[0], c_.hidden_size, [](LayerWeights& w, std::size_t) {
      return &w.indexer->wk;
    }).sources.push_back(fused("self_attn.indexer.wk_weights_proj", parts, 0));
    matrix("self_attn.indexer.weights_proj", parts[1], c_.hidden_size, [](LayerWeights& w, std::size_t) {
      return &w.indexer->weights_proj;
    }).sources.push_back(fused("self_attn.indexer.wk_weights_proj", parts, 1));
    vector("self_attn.indexer.k_norm.weight", c_.index_head_dim,
           [](LayerWeights& w) { return &w.indexer->k_norm_weight; });
    vector("self_attn.indexer.k_norm.bias", c_.index_head_dim, [](LayerWeights& w) { return &w.indexer->k_norm_bias; });
  }

  void router() {
    auto& gate = matrix("mlp.gate", c_.n_routed_experts, c_.hidden_size,
                        [](LayerWeights& w, std::size_t) { return &w.moe->router; });
    gate.sources.push_back(plain("mlp.router.gate"));  // the backbone's name
    auto& bias = vector("mlp.gate.e_score_correction_bias", c_.n_routed_experts,
                        [](LayerWeights& w) { return &w.moe->expert_bias; });
    bias.sources.push_back(named("mlp.expert_bias"));
    bias.sources.push_back(named("mlp.router.gate.e_score_correction_bias"));
  }

  // Split, or packed as [experts, rows, cols]; some exporters give the packed tensor a ".weight".
  void routed_expert(std::size_t expert) {
    const std::size_t inner = c_.moe_intermediate_size;
    const auto add = [&](const char* projection, const char* packed, std::size_t rows, std::size_t cols,
                         std::vector<std::size_t> part_rows, std::size_t part, MatrixPlace place) {
      LogicalWeight& weight = matrix(fmt::format("mlp.experts.{}.{}", expert, projection), rows, cols, place);
      const std::string stem = fmt::format("mlp.experts.{}", packed);
      weight.sources.push_back({stem, stem, false, expert, part_rows, part});
      weight.sources.push_back({stem + ".weight", stem, false, expert, std::move(part_rows), part});
      weight.expert = expert;
    };
    add("gate_proj", "gate_up_proj", inner, c_.hidden_size, {inner, inner}, 0,
        [](LayerWeights& w, std::size_t e) { return &w.moe->experts[e].gate; });
    add("up_proj", "gate_up_proj", inner, c_.hidden_size, {inner, inner}, 1,
        [](LayerWeights& w, std::size_t e) { return &w.moe->experts[e].up; });
    add("down_proj", "down_proj", c_.hidden_size, inner, {c_.hidden_size}, 0,
        [](LayerWeights& w, std::size_t e) { return &w.moe->experts[e].down; });
  }

  void shared_experts() {
    mlp(
        "mlp.shared_experts", c_.moe_intermediate_size * c_.n_shared_experts,
        [](LayerWeights& w, std::size_t) { return &w.moe->shared->gate; },
        [](LayerWeights& w, std::size_t) { return &w.moe->shared->up; },
        [](LayerWeights& w, std::size_t) { return &w.moe->shared->down; });
  }

  void dense_mlp() {
    mlp(
        "mlp", c_.intermediate_size, [](LayerWeights& w, std::size_t) { return &w.mlp->gate; },
        [](LayerWeights& w, std::size_t) { return &w.mlp->up; },
        [](LayerWeights& w, std::size_t) { return &w.mlp->down; });
  }

  void mlp(const std::string& stem, std::size_t inner, MatrixPlace gate, MatrixPlace up, MatrixPlace down) {
    const std::string both = stem + ".gate_up_proj";
    matrix(stem + ".gate_proj", inner, c_.hidden_size, gate).sources.push_back(fused(both, {inner, inner}, 0));
    matrix(stem + ".up_proj", inner, c_.hidden_size, up).sources.push_back(fused(both, {inner, inner}, 1));
    matrix(stem + ".down_proj", c_.hidden_size, inner, down);
  }

  void lm_head() {
    LogicalWeight head{"lm_head", c_.vocab_size, c_.hidden_size, {shared("lm_head")}, {}, nullptr, nullptr, 0};
    head.matrix = [](LayerWeights& w, std::size_t) { return &w.lm_head; };
    head.fallbacks.push_back(plain("shared_head.head"));
    if (c_.tie_word_embeddings) head.fallbacks.push_back(shared("model.embed_tokens"));
    all_.push_back(std::move(head));
  }

  const HeadConfig& c_;
  std::vector<LogicalWeight> all_;
};

}  // namespace

std::vector<LogicalWeight> logical_weights(const HeadConfig& config) { return Layer(config).weights(); }

LogicalWeight logical_embedding(const HeadConfig& config) {
  return {"embed_tokens",
          config.vocab_size,
          config.hidden_size,
          {shared("model.embed_tokens")},
          {plain("embed_tokens")},  // the layer's own copy
          nullptr,
          nullptr,
          0};
}

LayerWeights empty_layer(const HeadConfig& config) {
  LayerWeights layer;
  if (config.sparse_attention) layer.indexer.emplace();
  if (config.sparse_mlp) {
    layer.moe.emplace();
    layer.moe->experts.resize(config.n_routed_experts);
    if (config.n_shared_experts > 0) layer.moe->shared.emplace();
  } else {
    layer.mlp.emplace();
  }
  return layer;
}

}  // namespace mtpcheck
