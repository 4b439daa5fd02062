#include "reference/head/fitting.h"

#include <fmt/format.h>

#include <string_view>

#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

void expect(const Matrix& w, std::size_t rows, std::size_t cols, std::string_view role) {
  if (w.empty()) throw input_error(fmt::format("the head has no {}; [{}, {}] was expected", role, rows, cols));
  if (w.rows == rows && w.cols == cols) return;
  throw input_error(fmt::format("tensor {} ({}) is [{}, {}]; the config asks for [{}, {}]", w.name, role, w.rows,
                                w.cols, rows, cols));
}

void expect(const Vector& w, std::size_t size, std::string_view role) {
  if (w.size() == size) return;
  throw input_error(fmt::format("{} has {} elements; the config asks for {}", role, w.size(), size));
}

void check_mlp(const MlpWeights& w, std::size_t width, std::size_t hidden, std::string_view role) {
  expect(w.gate, width, hidden, fmt::format("{} gate projection", role));
  expect(w.up, width, hidden, fmt::format("{} up projection", role));
  expect(w.down, hidden, width, fmt::format("{} down projection", role));
}

void check_moe(const HeadConfig& c, const MoeWeights& w) {
  expect(w.router, c.n_routed_experts, c.hidden_size, "router");
  if (!w.expert_bias.empty()) expect(w.expert_bias, c.n_routed_experts, "e_score_correction_bias");
  if (w.experts.size() != c.n_routed_experts) {
    throw input_error(
        fmt::format("the head has {} experts; the config asks for {}", w.experts.size(), c.n_routed_experts));
  }
  for (std::size_t e = 0; e < w.experts.size(); ++e) {
    check_mlp(w.experts[e], c.moe_intermediate_size, c.hidden_size, fmt::format("expert {}'s", e));
  }
  if (c.n_shared_experts == 0) return;
  if (!w.shared)
    throw input_error(fmt::format("the head has no shared expert; the config asks for {}", c.n_shared_experts));
  check_mlp(*w.shared, c.moe_intermediate_size * c.n_shared_experts, c.hidden_size, "the shared expert's");
}

void check_layer(const HeadConfig& c, const LayerWeights& w) {
  const std::size_t hidden = c.hidden_size;
  const std::size_t heads = c.num_attention_heads;
  expect(w.enorm, hidden, "enorm");
  expect(w.hnorm, hidden, "hnorm");
  expect(w.final_layernorm, hidden, "final_layernorm");
  expect(w.input_layernorm, hidden, "input_layernorm");
  expect(w.post_attention_layernorm, hidden, "post_attention_layernorm");
  expect(w.q_a_layernorm, c.q_lora_rank, "q_a_layernorm");
  expect(w.kv_a_layernorm, c.kv_lora_rank, "kv_a_layernorm");
  expect(w.eh_proj, hidden, 2 * hidden, "eh_proj");
  expect(w.q_a_proj, c.q_lora_rank, hidden, "q_a_proj");
  expect(w.q_b_proj, heads * (c.qk_nope_head_dim + c.qk_rope_head_dim), c.q_lora_rank, "q_b_proj");
  expect(w.kv_a_proj, c.kv_lora_rank + c.qk_rope_head_dim, hidden, "kv_a_proj");
  expect(w.kv_b_proj, heads * (c.qk_nope_head_dim + c.v_head_dim), c.kv_lora_rank, "kv_b_proj");
  expect(w.o_proj, hidden, heads * c.v_head_dim, "o_proj");
  if (c.gate != GateKind::none) {
    expect(w.linear_gate, c.gate == GateKind::headwise ? heads : heads * c.v_head_dim, hidden, "linear_gate");
  }
  if (!w.sink.empty()) expect(w.sink, heads, "learnable_sink_param");
  expect(w.lm_head, c.vocab_size, hidden, "lm_head");
  if (c.sparse_attention) {
    if (!w.indexer) throw input_error("the head has no indexer; the config asks for sparse attention");
    expect(w.indexer->wq_b, c.index_n_heads * c.index_head_dim, c.q_lora_rank, "the indexer's wq_b");
    expect(w.indexer->wk, c.index_head_dim, hidden, "the indexer's wk");
    expect(w.indexer->weights_proj, c.index_n_heads, hidden, "the indexer's weights_proj");
    expect(w.indexer->k_norm_weight, c.index_head_dim, "the indexer's k_norm.weight");
    if (!w.indexer->k_norm_bias.empty()) expect(w.indexer->k_norm_bias, c.index_head_dim, "the indexer's k_norm.bias");
  }
  if (c.sparse_mlp) {
    if (!w.moe) throw input_error("the head has no experts; the config asks for a sparse MLP");
    return check_moe(c, *w.moe);
  }
  if (!w.mlp) throw input_error("the head has no dense MLP; the config asks for one");
  check_mlp(*w.mlp, c.intermediate_size, hidden, "the MLP's");
}

}  // namespace

void check_weights(const HeadConfig& config, const HeadWeights& weights) {
  if (weights.layers.empty()) throw input_error("the head has no MTP layer");
  expect(weights.embed_tokens, config.vocab_size, config.hidden_size, "embed_tokens");
  for (const auto& layer : weights.layers) check_layer(config, layer);
}

void check_input(const HeadConfig& config, const HeadInput& input) {
  const std::size_t tokens = input.tokens();
  const Shape expected{tokens, config.hidden_size};
  if (input.hidden_states.shape != expected) {
    throw input_error(
        fmt::format("hidden_states is {}; {} was expected", to_string(input.hidden_states.shape), to_string(expected)));
  }
  const bool has_embeds = !input.inputs_embeds.bytes.empty();
  if (has_embeds && input.inputs_embeds.shape != expected) {
    throw input_error(
        fmt::format("inputs_embeds is {}; {} was expected", to_string(input.inputs_embeds.shape), to_string(expected)));
  }
  if (!has_embeds && input.input_ids.size() != tokens) {
    throw input_error(fmt::format("input_ids has {} rows, positions {}", input.input_ids.size(), tokens));
  }
  for (std::size_t t = 0; t < tokens; ++t) {
    if (input.positions[t] < 0) throw input_error(fmt::format("row {} has position {}", t, input.positions[t]));
    if (has_embeds) continue;
    const std::int64_t id = input.input_ids[t];
    if (id < 0 || static_cast<std::size_t>(id) >= config.vocab_size) {
      throw input_error(fmt::format("row {} has token {}; the vocabulary has {}", t, id, config.vocab_size));
    }
  }
  const auto& bounds = input.cu_seqlens;
  bool ascending = !bounds.empty() && bounds.front() == 0 && bounds.back() == static_cast<std::int64_t>(tokens);
  for (std::size_t i = 1; i < bounds.size(); ++i) ascending = ascending && bounds[i - 1] <= bounds[i];
  if (!ascending) {
    throw input_error(fmt::format("cu_seqlens must ascend from 0 to the {} rows of the batch", tokens));
  }
}

}  // namespace mtpcheck
