#include "harness/loading/vllm/head/draft_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/loading/plan/layer_parameters.h"
#include "harness/loading/vllm/head/parameters.h"
#include "reference/tensor/error.h"

namespace mtpcheck::vllm {
namespace {

using Json = nlohmann::json;

// The parameters' dtype: float16 where the config asks for it, and bfloat16 otherwise.
Dtype model_dtype(const Json& config) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (const auto found = config.find(key); found != config.end() && found->is_string()) {
      return *found == "float16" ? Dtype::f16 : Dtype::bf16;
    }
  }
  return Dtype::bf16;
}

bool is_sparse_attention(const HeadConfig& config, std::size_t layer) {
  if (config.layer_types.empty()) return false;
  const std::string& type = config.layer_types[std::min(layer, config.layer_types.size() - 1)];
  constexpr std::array<std::string_view, 4> kSparse{"sparse_attention", "sparse", "indexed_attention",
                                                    "deepseek_sparse_attention"};
  return std::ranges::find(kSparse, type) != kSparse.end();
}

bool is_dense_mlp(const HeadConfig& config, std::size_t layer) {
  if (config.mlp_layer_types.empty()) return config.num_hidden_layers < 2;
  return config.mlp_layer_types[std::min(layer, config.mlp_layer_types.size() - 1)] == "dense";
}

// What the engine's configuration class checks and the draft head's own module asserts, before any quantisation.
void check_config(const LoadRequest& request) {
  const HeadConfig& config = request.config;
  if (config.num_nextn_predict_layers == 0 && !request.config_unchecked) {
    throw Refused{"num_nextn_predict_layers", "ZeroDivisionError", "integer modulo by zero"};
  }
  if (config.num_attention_heads % request.topology.tp_size != 0) {
    throw Refused{"num_attention_heads", "ValueError",
                  fmt::format("Total number of attention heads ({}) must be divisible by tensor parallel size ({}).",
                              config.num_attention_heads, request.topology.tp_size)};
  }
  if (const auto act = request.config_json.find("hidden_act");
      act != request.config_json.end() && act->is_string() && *act != "silu") {
    throw Refused{"hidden_act", "ValueError", "Only silu is supported for now."};
  }
  if (const auto types = request.config_json.find("indexer_types");
      types != request.config_json.end() && types->is_array()) {
    if (types->size() != config.num_hidden_layers) {
      throw Refused{"indexer_types", "ValueError",
                    fmt::format("indexer_types must contain one entry per hidden layer: expected {}, got {}.",
                                config.num_hidden_layers, types->size())};
    }
    if (std::ranges::any_of(*types, [](const Json& type) { return type != "full" && type != "shared"; })) {
      throw Refused{"indexer_types", "ValueError", "indexer_types only supports 'full' and 'shared'"};
    }
  }
}

// Slots of the experts on this rank: experts in turn, the first ranks one more where it does not come out even.
std::vector<std::int64_t> local_experts(const LoadRequest& request) {
  const std::size_t count = request.config.n_routed_experts;
  const Topology& topology = request.topology;
  std::vector<std::int64_t> slots(count, -1);
  if (!topology.expert_map.empty()) {
    if (topology.expert_map.size() != count) {
      throw usage_error(
          fmt::format("the expert map has {} entries, the model {} routed experts", topology.expert_map.size(), count));
    }
    std::set<std::int64_t> used;
    for (const std::int64_t slot : topology.expert_map) {
      if (slot >= 0 && !used.insert(slot).second) {
        throw usage_error(fmt::format("the expert map gives slot {} to two experts", slot));
      }
    }
    if (!used.empty() && *used.rbegin() + 1 != static_cast<std::int64_t>(used.size())) {
      throw usage_error("the expert map leaves slots empty: they must be 0, 1, 2, …");
    }
    return topology.expert_map;
  }
  const std::size_t ranks = topology.expert_parallel ? topology.tp_size : 1;
  const std::size_t rank = topology.expert_parallel ? topology.tp_rank : 0;
  const std::size_t base = count / ranks;
  const std::size_t extra = count % ranks;
  const std::size_t first = rank * base + std::min(rank, extra);
  const std::size_t local = base + (rank < extra ? 1 : 0);
  for (std::size_t i = 0; i < local; ++i) slots[first + i] = static_cast<std::int64_t>(i);
  return slots;
}

// Builds one MTP layer after another.
class HeadBuilder {
 public:
  HeadBuilder(const LoadRequest& request, const Quantisation& quantisation)
      : request_(request), config_(request.config), quant_(quantisation.draft) {
    context_.dtype = model_dtype(request.config_json);
    context_.tp_size = request.topology.tp_size;
    context_.tp_rank = request.topology.tp_rank;
    head_.local_expert = local_experts(request);
  }

  void layer(std::size_t index) {
    context_.layer = index;
    const std::size_t number = config_.num_hidden_layers + index;
    layer_ = fmt::format("model.layers.{}", number);
    block_ = layer_ + ".mtp_block";
    norm(layer_ + ".enorm", hidden());
    norm(layer_ + ".hnorm", hidden());
    plain(layer_ + ".eh_proj.weight", context_.dtype, {hidden(), 2 * hidden()}, Initial::random, Role::weight);
    add_vocabulary({layer_ + ".shared_head.head", {config_.vocab_size, "vocab_size"}, hidden_size()},
                   head_scheme(quant_), context_, head_.parameters);
    attention(is_sparse_attention(config_, number));
    norm(block_ + ".input_layernorm", hidden());
    if (is_dense_mlp(config_, number)) {
      feed_forward("mlp", {config_.intermediate_size, "intermediate_size"});
    } else {
      experts();
    }
    norm(block_ + ".post_attention_layernorm", hidden());
    norm(layer_ + ".final_layernorm", hidden());
  }

  DraftHead finish() {
    context_.layer = 0;
    add_vocabulary({"model.embed_tokens", {config_.vocab_size, "vocab_size"}, hidden_size()}, {}, context_,
                   head_.parameters);
    return std::move(head_);
  }

 private:
  std::size_t hidden() const { return config_.hidden_size; }
  Size hidden_size() const { return {config_.hidden_size, "hidden_size"}; }

  void plain(std::string name, Dtype dtype, Shape shape, Initial initial, Role role, Loader loader = Loader::plain) {
    EngineParameter& entry = head_.parameters.emplace_back();
    entry.parameter = plain_parameter(std::move(name), dtype, std::move(shape), initial, role, context_.layer);
    entry.loader = loader;
  }

  void norm(const std::string& module, std::size_t size) {
    plain(module + ".weight", context_.dtype, {size}, Initial::one, Role::norm);
  }

  // `path` is the module's place inside the block, which the quantisation's names do without.
  void linear(const std::string& path, Loader loader, bool replicated, const Size& cols,
              std::vector<Projection> projections, bool quantised = true) {
    const Linear spec{block_ + "." + path, layer_ + "." + path, loader, replicated, cols, std::move(projections)};
    const Scheme scheme = quantised ? linear_scheme(quant_, spec.module, module_class(spec)) : Scheme{};
    add_linear(spec, scheme, context_, head_.parameters);
  }

  void attention(bool sparse) {
    const Size heads{config_.num_attention_heads, "num_attention_heads"};
    const std::size_t local_heads = share(heads, context_.tp_size);
    const auto per_head = [&](std::size_t width) { return Size{heads.value * width, heads.key}; };
    const Size q_rank{config_.q_lora_rank, "q_lora_rank"};
    const Size kv_rank{config_.kv_lora_rank, "kv_lora_rank"};
    const std::size_t rope = config_.qk_rope_head_dim;

    linear("self_attn.fused_qkv_a_proj", Loader::merged, true, hidden_size(),
           {{"q_a_proj", q_rank}, {"kv_a_proj_with_mqa", {kv_rank.value + rope, kv_rank.key}}});
    norm(block_ + ".self_attn.q_a_layernorm", q_rank.value);
    linear("self_attn.q_b_proj", Loader::column, false, q_rank,
           {{"q_b_proj", per_head(config_.qk_nope_head_dim + rope)}});
    norm(block_ + ".self_attn.kv_a_layernorm", kv_rank.value);
    linear("self_attn.kv_b_proj", Loader::column, false, kv_rank,
           {{"kv_b_proj", per_head(config_.qk_nope_head_dim + config_.v_head_dim)}});
    linear("self_attn.o_proj", Loader::row, false, per_head(config_.v_head_dim), {{"o_proj", hidden_size()}});
    if (sparse) indexer(q_rank);
    if (config_.gate != GateKind::none) {
      const std::size_t width = config_.gate == GateKind::elementwise ? config_.v_head_dim : 1;
      linear("self_attn.linear_gate", Loader::column, false, hidden_size(), {{"linear_gate", per_head(width)}});
    }
    if (config_.learnable_sink) {
      plain(block_ + ".self_attn.learnable_sink_param", Dtype::f32, {local_heads}, Initial::minus_infinity, Role::sink,
            Loader::sink);
      if (context_.tp_size > 1) head_.parameters.back().parameter.sharding = Sharding::rows;
      head_.parameters.back().tp_size = context_.tp_size;
      head_.parameters.back().tp_rank = context_.tp_rank;
    }
    // Only ModelOpt gives an MLA layer parameters for the KV cache's scales, with or without a scheme for it.
    if (quant_ && quant_->format == QuantConfig::Format::modelopt) {
      for (const char* scale : {"q_scale", "k_scale", "v_scale", "prob_scale"}) {
        plain(block_ + ".self_attn.mla_attn." + scale, context_.dtype, {}, Initial::minus_one, Role::kv_scale,
              Loader::kv_scale);
      }
    }
  }

  void indexer(const Size& q_rank) {
    const std::size_t dim = config_.index_head_dim;
    linear("self_attn.indexer.wq_b", Loader::replicated, true, q_rank,
           {{"wq_b", {dim * config_.index_n_heads, "index_n_heads"}}});
    linear("self_attn.indexer.wk_weights_proj", Loader::merged, true, hidden_size(),
           {{"wk", {dim, "index_head_dim"}}, {"weights_proj", {config_.index_n_heads, "index_n_heads"}}}, false);
    plain(block_ + ".self_attn.indexer.k_norm.weight", Dtype::f32, {dim}, Initial::one, Role::norm);
    plain(block_ + ".self_attn.indexer.k_norm.bias", Dtype::f32, {dim}, Initial::zero, Role::bias);
  }

  void feed_forward(const std::string& path, const Size& width) {
    linear(path + ".gate_up_proj", Loader::merged, false, hidden_size(), {{"gate_proj", width}, {"up_proj", width}});
    linear(path + ".down_proj", Loader::row, false, width, {{"down_proj", hidden_size()}});
  }

  void experts() {
    const std::size_t count = config_.n_routed_experts;
    if (context_.tp_size > count) {
      throw Refused{
          "n_routed_experts", "ValueError",
          fmt::format("Tensor parallel size {} is greater than the number of experts {}.", context_.tp_size, count)};
    }
    plain(block_ + ".mlp.expert_bias", Dtype::f32, {count}, Initial::uninitialised, Role::bias);
    plain(block_ + ".mlp.gate.weight", Dtype::f32, {count, hidden()}, Initial::uninitialised, Role::weight,
          Loader::replicated);
    head_.parameters.back().exempt_from_strict_check = true;
    if (config_.n_shared_experts > 0) {
      feed_forward("mlp.shared_experts",
                   {config_.moe_intermediate_size * config_.n_shared_experts, "moe_intermediate_size"});
    }
    Experts experts{.name = block_ + ".mlp.experts.routed_experts",
                    .count = count,
                    .local = {},
                    .hidden = hidden_size(),
                    .intermediate = {config_.moe_intermediate_size, "moe_intermediate_size"}};
    const bool whole_experts = request_.topology.expert_parallel;
    experts.tp_size = whole_experts ? 1 : context_.tp_size;
    experts.tp_rank = whole_experts ? 0 : context_.tp_rank;
    const auto locals = std::ranges::count_if(head_.local_expert, [](std::int64_t slot) { return slot >= 0; });
    experts.local.resize(static_cast<std::size_t>(locals));
    for (std::size_t expert = 0; expert < count; ++expert) {
      const std::int64_t slot = head_.local_expert[expert];
      if (slot >= 0) experts.local[static_cast<std::size_t>(slot)] = static_cast<std::uint32_t>(expert);
    }
    add_experts(experts, expert_scheme(quant_, layer_ + ".mlp.experts"), context_, head_.parameters);
  }

  const LoadRequest& request_;
  const HeadConfig& config_;
  const std::optional<QuantConfig>& quant_;
  LayerContext context_;
  DraftHead head_;
  std::string layer_;
  std::string block_;
};

}  // namespace

DraftHead build_draft_head(const LoadRequest& request, const Quantisation& quantisation) {
  check_config(request);
  HeadBuilder builder(request, quantisation);
  const std::size_t layers = std::max<std::size_t>(request.config.num_nextn_predict_layers, 1);
  for (std::size_t layer = 0; layer < layers; ++layer) builder.layer(layer);
  return builder.finish();
}

}  // namespace mtpcheck::vllm
