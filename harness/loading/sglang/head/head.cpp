#include "harness/loading/sglang/head/head.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "harness/loading/plan/layer_parameters.h"
#include "harness/loading/sglang/head/layers.h"

namespace mtpcheck::sglang {
namespace {

// The dtype of everything that is neither quantised nor float32 by itself. Unlike other engines SGLang takes float16
// where the config says nothing, or float32.
Dtype model_dtype(const nlohmann::json& config) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    const auto found = config.find(key);
    if (found == config.end() || !found->is_string()) continue;
    return *found == "bfloat16" ? Dtype::bf16 : Dtype::f16;
  }
  return Dtype::f16;
}

class HeadBuilder {
 public:
  HeadBuilder(const LoadRequest& request, const std::optional<Quantisation>& quantisation)
      : config_(request.config),
        topology_(request.topology),
        context_{quantisation, model_dtype(request.config_json), request.topology.tp_size, request.topology.tp_rank} {
    const std::size_t ranks = topology_.expert_parallel ? topology_.tp_size : 1;
    head_.local_experts = share_of({config_.n_routed_experts, "n_routed_experts"}, ranks);
    head_.first_expert = topology_.expert_parallel ? topology_.tp_rank * head_.local_experts : 0;
  }

  DraftHead build() && {
    shared_with_target("model.embed_tokens.weight");
    norm("model.enorm", hidden());
    norm("model.hnorm", hidden());
    plain("model.eh_proj.weight", context_.dtype, {hidden(), 2 * hidden()}, Initial::random, Role::weight);
    attention();
    norm(block("input_layernorm"), hidden());
    norm(block("post_attention_layernorm"), hidden());
    mixture();
    norm("model.shared_head.norm", hidden());
    shared_with_target("lm_head.weight");
    return std::move(head_);
  }

 private:
  std::size_t hidden() const { return config_.hidden_size; }
  Size hidden_size() const { return {config_.hidden_size, "hidden_size"}; }
  static std::string block(const std::string& path) { return "model.decoder." + path; }

  EngineParameter& add(Parameter parameter, Loader loader) {
    EngineParameter& entry = head_.parameters.emplace_back();
    entry.parameter = std::move(parameter);
    entry.loader = loader;
    return entry;
  }

  EngineParameter& plain(std::string name, Dtype dtype, Shape shape, Initial initial, Role role) {
    return add(plain_parameter(std::move(name), dtype, std::move(shape), initial, role, 0), Loader::plain);
  }

  void norm(const std::string& module, std::size_t size) {
    plain(module + ".weight", context_.dtype, {size}, Initial::one, Role::norm);
  }

  // Embedding and head: made like any other, and replaced by the target's after the load.
  void shared_with_target(const char* name) {
    constexpr std::size_t kPadding = 64;
    const std::size_t padded = blocks_of(config_.vocab_size, kPadding) * kPadding;
    const std::size_t rows = share_of({padded, "vocab_size"}, topology_.tp_size);
    EngineParameter& entry = plain(name, context_.dtype, {rows, hidden()}, Initial::uninitialised, Role::weight);
    entry.parameter.origin = Origin::target;
    entry.parameter.sharding = Sharding::embedding;
  }

  void attention() {
    const std::size_t heads = config_.num_attention_heads;
    const auto per_head = [&](std::size_t width) { return Size{heads * width, "num_attention_heads"}; };
    const Size q_rank{config_.q_lora_rank, "q_lora_rank"};
    const Size kv_rank{config_.kv_lora_rank, "kv_lora_rank"};
    const std::size_t rope = config_.qk_rope_head_dim;

    linear({"model.decoder.self_attn.fused_qkv_a_proj_with_mqa",
            Loader::replicated,
            hidden_size(),
            {"q_a_proj", "kv_a_proj_with_mqa"},
            {q_rank, {kv_rank.value + rope, kv_rank.key}},
            true});
    norm(block("self_attn.q_a_layernorm"), q_rank.value);
    linear({"model.decoder.self_attn.q_b_proj",
            Loader::column,
            q_rank,
            {"q_b_proj"},
            {per_head(config_.qk_nope_head_dim + rope)}});
    indexer(q_rank);
    linear({"model.decoder.self_attn.kv_b_proj",
            Loader::column,
            kv_rank,
            {"kv_b_proj"},
            {per_head(config_.qk_nope_head_dim + config_.v_head_dim)}});
    linear({"model.decoder.self_attn.o_proj", Loader::row, per_head(config_.v_head_dim), {"o_proj"}, {hidden_size()}});
    norm(block("self_attn.kv_a_layernorm"), kv_rank.value);
    kv_scales();
    linear({"model.decoder.self_attn.linear_gate",
            Loader::column,
            hidden_size(),
            {"linear_gate"},
            {per_head(config_.v_head_dim)}});
    EngineParameter& sink = plain(block("self_attn.learnable_sink_param"), Dtype::f32, {heads / topology_.tp_size},
                                  Initial::uninitialised, Role::sink);
    sink.loader = Loader::sink;
    sink.tp_size = topology_.tp_size;
    sink.tp_rank = topology_.tp_rank;
    if (topology_.tp_size > 1) sink.parameter.sharding = Sharding::rows;
  }

  void indexer(const Size& q_rank) {
    const std::size_t dim = config_.index_head_dim;
    linear({"model.decoder.self_attn.indexer.wq_b",
            Loader::replicated,
            q_rank,
            {"wq_b"},
            {{dim * config_.index_n_heads, "index_n_heads"}}});
    // Never quantised, and BF16 whatever the model's dtype is.
    const LinearShape fused{.name = block("self_attn.indexer.wk_weights_proj"),
                            .parts = {"wk", "weights_proj"},
                            .part_rows = {dim, config_.index_n_heads},
                            .cols = hidden(),
                            .layer = 0};
    add(linear_weight(fused, Dtype::bf16, hidden()), Loader::replicated);
    plain(block("self_attn.indexer.k_norm.weight"), Dtype::f32, {dim}, Initial::one, Role::norm);
    plain(block("self_attn.indexer.k_norm.bias"), Dtype::f32, {dim}, Initial::zero, Role::bias);
  }

  // Two attention objects, for two ways to compute the same.
  void kv_scales() {
    if (!context_.quantisation || !context_.quantisation->kv_scales) return;
    for (const char* attention : {"attn_mqa", "attn_mha"}) {
      for (const char* scale : {"k_scale", "v_scale"}) {
        plain(block(fmt::format("self_attn.{}.{}", attention, scale)), Dtype::f32, {}, Initial::minus_one,
              Role::kv_scale);
      }
    }
  }

  void mixture() {
    const std::size_t count = config_.n_routed_experts;
    plain(block("mlp.gate.weight"), Dtype::f32, {count, hidden()}, Initial::uninitialised, Role::weight);
    plain(block("mlp.gate.e_score_correction_bias"), Dtype::f32, {count}, Initial::uninitialised, Role::bias);
    add_experts({.count = count,
                 .first = head_.first_expert,
                 .local = head_.local_experts,
                 .hidden = hidden(),
                 .intermediate = {config_.moe_intermediate_size, "moe_intermediate_size"},
                 .whole = topology_.expert_parallel},
                context_, head_.parameters);
    if (config_.n_shared_experts == 0) return;
    const Size width{config_.moe_intermediate_size * config_.n_shared_experts, "moe_intermediate_size"};
    linear({"model.decoder.mlp.shared_experts.gate_up_proj",
            Loader::merged,
            hidden_size(),
            {"gate_proj", "up_proj"},
            {width, width}});
    linear({"model.decoder.mlp.shared_experts.down_proj", Loader::row, width, {"down_proj"}, {hidden_size()}});
  }

  void linear(const Linear& linear) { add_linear(linear, context_, head_.parameters); }

  const HeadConfig& config_;
  const Topology& topology_;
  LayerContext context_;
  DraftHead head_;
};

}  // namespace

DraftHead build_draft_head(const LoadRequest& request, const std::optional<Quantisation>& quantisation) {
  return HeadBuilder(request, quantisation).build();
}

}  // namespace mtpcheck::sglang
