#include "harness/loading/sglang/head.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "harness/loading/plan/layer_parameters.h"
#include "harness/loading/symbolic/refused.h"
#include "reference/tensor/error.h"

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

// A size of config.json and its key.
struct Size {
  std::size_t value;
  const char* key;
};

std::size_t share_of(const Size& size, std::size_t ranks) {
  if (size.value % ranks != 0) {
    throw Refused{size.key, "AssertionError", fmt::format("{} is not divisible by {}", size.value, ranks)};
  }
  return size.value / ranks;
}

// A linear layer to be built.
struct Linear {
  const char* path;  // inside the block: "self_attn.o_proj"
  Loader loader;
  Size cols;
  std::vector<std::string> parts;
  std::vector<Size> part_rows;  // of all ranks together
  bool one_for_sglang = false;  // fused before SGLang sees it: its own code knows one projection only
};

class HeadBuilder {
 public:
  HeadBuilder(const LoadRequest& request, const std::optional<Quantisation>& quantisation)
      : config_(request.config),
        quantisation_(quantisation),
        topology_(request.topology),
        dtype_(model_dtype(request.config_json)) {
    const std::size_t ranks = topology_.expert_parallel ? topology_.tp_size : 1;
    head_.local_experts = share_of({config_.n_routed_experts, "n_routed_experts"}, ranks);
    head_.first_expert = topology_.expert_parallel ? topology_.tp_rank * head_.local_experts : 0;
  }

  DraftHead build() && {
    shared_with_target("model.embed_tokens.weight");
    norm("model.enorm", hidden());
    norm("model.hnorm", hidden());
    plain("model.eh_proj.weight", dtype_, {hidden(), 2 * hidden()}, Initial::random, Role::weight);
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
    plain(module + ".weight", dtype_, {size}, Initial::one, Role::norm);
  }

  // Embedding and head: made like any other, and replaced by the target's after the load.
  void shared_with_target(const char* name) {
    constexpr std::size_t kPadding = 64;
    const std::size_t padded = blocks_of(config_.vocab_size, kPadding) * kPadding;
    const std::size_t rows = share_of({padded, "vocab_size"}, topology_.tp_size);
    EngineParameter& entry = plain(name, dtype_, {rows, hidden()}, Initial::uninitialised, Role::weight);
    entry.parameter.origin = Origin::target;
    entry.parameter.sharding = Sharding::embedding;
  }

  void attention() {
    const std::size_t heads = config_.num_attention_heads;
    const auto per_head = [&](std::size_t width) { return Size{heads * width, "num_attention_heads"}; };
    const Size q_rank{config_.q_lora_rank, "q_lora_rank"};
    const Size kv_rank{config_.kv_lora_rank, "kv_lora_rank"};
    const std::size_t rope = config_.qk_rope_head_dim;

    linear({"self_attn.fused_qkv_a_proj_with_mqa",
            Loader::replicated,
            hidden_size(),
            {"q_a_proj", "kv_a_proj_with_mqa"},
            {q_rank, {kv_rank.value + rope, kv_rank.key}},
            true});
    norm(block("self_attn.q_a_layernorm"), q_rank.value);
    linear({"self_attn.q_b_proj", Loader::column, q_rank, {"q_b_proj"}, {per_head(config_.qk_nope_head_dim + rope)}});
    indexer(q_rank);
    linear({"self_attn.kv_b_proj",
            Loader::column,
            kv_rank,
            {"kv_b_proj"},
            {per_head(config_.qk_nope_head_dim + config_.v_head_dim)}});
    linear({"self_attn.o_proj", Loader::row, per_head(config_.v_head_dim), {"o_proj"}, {hidden_size()}});
    norm(block("self_attn.kv_a_layernorm"), kv_rank.value);
    kv_scales();
    linear({"self_attn.linear_gate", Loader::column, hidden_size(), {"linear_gate"}, {per_head(config_.v_head_dim)}});
    EngineParameter& sink = plain(block("self_attn.learnable_sink_param"), Dtype::f32, {heads / topology_.tp_size},
                                  Initial::uninitialised, Role::sink);
    sink.loader = Loader::sink;
    sink.tp_size = topology_.tp_size;
    sink.tp_rank = topology_.tp_rank;
    if (topology_.tp_size > 1) sink.parameter.sharding = Sharding::rows;
  }

  void indexer(const Size& q_rank) {
    const std::size_t dim = config_.index_head_dim;
    linear({"self_attn.indexer.wq_b",
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
    if (!quantisation_ || !quantisation_->kv_scales) return;
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
    experts();
    if (config_.n_shared_experts == 0) return;
    const Size width{config_.moe_intermediate_size * config_.n_shared_experts, "moe_intermediate_size"};
    linear(
        {"mlp.shared_experts.gate_up_proj", Loader::merged, hidden_size(), {"gate_proj", "up_proj"}, {width, width}});
    linear({"mlp.shared_experts.down_proj", Loader::row, width, {"down_proj"}, {hidden_size()}});
  }

  void linear(const Linear& linear);
  void experts();

  const HeadConfig& config_;
  const std::optional<Quantisation>& quantisation_;
  const Topology& topology_;
  Dtype dtype_;
  DraftHead head_;
};

// Blocks that ranks would share, or that straddle gate and up, cannot be cut.
void check_linear_blocks(const Linear& linear, const LinearShape& shape, const Scheme& scheme, std::size_t ranks) {
  if (ranks > 1 && linear.loader == Loader::row && shape.cols % scheme.block_cols != 0) {
    throw Refused{
        linear.cols.key, "ValueError",
        fmt::format("Weight input_size_per_partition = {} is not divisible by weight quantization block_k = {}.",
                    shape.cols, scheme.block_cols)};
  }
  const bool cut_rows = ranks > 1 && linear.loader != Loader::row;
  if (!cut_rows && linear.loader != Loader::merged) return;
  for (const std::size_t rows : shape.part_rows) {
    if (rows % scheme.block_rows == 0) continue;
    throw Refused{linear.part_rows.front().key, "ValueError",
                  fmt::format("Weight output_partition_size = {} is not divisible by weight quantization block_n = {}.",
                              rows, scheme.block_rows)};
  }
}

Sharding sharding_of(const Linear& linear, Cut cut, std::size_t ranks) {
  if (ranks == 1 || cut == Cut::per_tensor) return Sharding::replicated;
  if (linear.loader == Loader::row) return cut == Cut::channel ? Sharding::replicated : Sharding::cols;
  return Sharding::rows;
}

void HeadBuilder::linear(const Linear& linear) {
  const bool cut = linear.loader != Loader::replicated;
  const std::size_t ranks = cut ? topology_.tp_size : 1;
  LinearShape shape{.name = block(linear.path), .parts = linear.parts, .part_rows = {}, .cols = 0, .layer = 0};
  for (const Size& rows : linear.part_rows) {
    shape.part_rows.push_back(linear.loader == Loader::row ? rows.value : share_of(rows, ranks));
  }
  shape.cols = linear.loader == Loader::row ? share_of(linear.cols, ranks) : linear.cols.value;
  const Scheme scheme = scheme_of(quantisation_, "." + shape.name);
  const auto put = [&](Parameter parameter, Cut how) {
    EngineParameter& entry = add(std::move(parameter), linear.loader);
    entry.cut = how;
    entry.quantised = scheme.kind != Scheme::Kind::none;
    entry.block_rows = how == Cut::block ? scheme.block_rows : 1;
    entry.tp_size = ranks;
    entry.tp_rank = cut ? topology_.tp_rank : 0;
    entry.parameter.sharding = sharding_of(linear, how, ranks);
    for (const Size& rows : linear.part_rows) entry.output_sizes.push_back(rows.value);
  };
  const bool each_part = !linear.one_for_sglang;
  const auto weight_and_block_scales = [&](Dtype scale_dtype, ScaleBlock scale_block, Initial initial) {
    check_linear_blocks(linear, shape, scheme, ranks);
    put(linear_weight(shape, Dtype::f8_e4m3, shape.cols), Cut::weight);
    put(linear_scale_grid(shape, "weight_scale_inv", scale_dtype, scale_block, initial), Cut::block);
  };
  switch (scheme.kind) {
    case Scheme::Kind::none:
      put(linear_weight(shape, dtype_, shape.cols), Cut::weight);
      return;
    case Scheme::Kind::fp8_block:
      weight_and_block_scales(Dtype::f32, {scheme.block_rows, scheme.block_cols}, Initial::float_min);
      return;
    case Scheme::Kind::mxfp8:
      weight_and_block_scales(Dtype::u8, {scheme.block_rows, scheme.block_cols}, Initial::zero);
      return;
    case Scheme::Kind::fp8_tensor:
      put(linear_weight(shape, Dtype::f8_e4m3, shape.cols), Cut::weight);
      put(linear_scalars(shape, "weight_scale", Role::scale, Initial::float_min, each_part), Cut::per_tensor);
      if (!scheme.static_activation) return;
      put(linear_scalars(shape, "input_scale", Role::input_scale, Initial::float_min, each_part), Cut::per_tensor);
      return;
    case Scheme::Kind::fp8_channel:
    case Scheme::Kind::nvfp4:
      throw input_error("config.json: this quantisation is not covered by these rules of SGLang's loader");
  }
}

void HeadBuilder::experts() {
  const std::size_t tp_size = topology_.expert_parallel ? 1 : topology_.tp_size;
  const std::size_t width = share_of({config_.moe_intermediate_size, "moe_intermediate_size"}, tp_size);
  const std::string name = block("mlp.experts");
  const Scheme scheme = scheme_of(quantisation_, "." + name);
  std::vector<std::uint32_t> local;
  for (std::size_t i = 0; i < head_.local_experts; ++i) {
    local.push_back(static_cast<std::uint32_t>(head_.first_expert + i));
  }
  const bool blocks = scheme.kind == Scheme::Kind::fp8_block || scheme.kind == Scheme::Kind::mxfp8;
  if (blocks && width % scheme.block_rows != 0) {
    throw Refused{"moe_intermediate_size", "ValueError",
                  fmt::format("The output_size of gate's and up's weight = {} is not divisible by weight quantization "
                              "block_n = {}.",
                              width, scheme.block_rows)};
  }
  if (blocks && tp_size > 1 && width % scheme.block_cols != 0) {
    throw Refused{"moe_intermediate_size", "ValueError",
                  fmt::format("The input_size of down's weight = {} is not divisible by weight quantization block_k = "
                              "{}.",
                              width, scheme.block_cols)};
  }
  const ExpertShape gate_up{.stem = name + ".w13",
                            .experts = local,
                            .parts = {"gate_proj", "up_proj"},
                            .rows = 2 * width,
                            .cols = hidden(),
                            .layer = 0};
  const ExpertShape down{
      .stem = name + ".w2", .experts = local, .parts = {}, .rows = hidden(), .cols = width, .layer = 0};
  for (const ExpertShape& half : {gate_up, down}) {
    const auto put = [&](Parameter parameter) {
      EngineParameter& entry = add(std::move(parameter), Loader::experts);
      entry.scheme = scheme.kind;
      entry.method = scheme.method;
      entry.tp_size = tp_size;
      entry.tp_rank = topology_.expert_parallel ? 0 : topology_.tp_rank;
      if (head_.local_experts != config_.n_routed_experts) {
        entry.parameter.sharding = Sharding::experts;
      } else if (tp_size > 1) {
        entry.parameter.sharding = half.parts.empty() ? Sharding::cols : Sharding::rows;
      }
    };
    switch (scheme.kind) {
      case Scheme::Kind::none:
        put(expert_weight(half, dtype_, half.cols));
        break;
      case Scheme::Kind::fp8_block:
      case Scheme::Kind::mxfp8: {
        const bool bytes = scheme.kind == Scheme::Kind::mxfp8;
        put(expert_weight(half, Dtype::f8_e4m3, half.cols));
        put(expert_scale_grid(half, "weight_scale_inv", bytes ? Dtype::u8 : Dtype::f32,
                              {scheme.block_rows, scheme.block_cols}, bytes ? Initial::zero : Initial::one));
        break;
      }
      case Scheme::Kind::fp8_tensor: {
        const bool modelopt = scheme.method == Scheme::Method::modelopt;
        put(expert_weight(half, Dtype::f8_e4m3, half.cols));
        put(expert_scalars(half, "weight_scale", Role::scale, modelopt ? Initial::float_min : Initial::one, true));
        if (!scheme.static_activation) break;
        put(expert_scalars(half, "input_scale", Role::input_scale, Initial::one, false));
        break;
      }
      case Scheme::Kind::fp8_channel:
      case Scheme::Kind::nvfp4:
        throw input_error("config.json: this quantisation is not covered by these rules of SGLang's loader");
    }
  }
}

}  // namespace

DraftHead build_draft_head(const LoadRequest& request, const std::optional<Quantisation>& quantisation) {
  return HeadBuilder(request, quantisation).build();
}

}  // namespace mtpcheck::sglang
