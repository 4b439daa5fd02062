#include "reference/head/rounding_points.h"

#include <fmt/format.h>

#include <array>

#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

constexpr auto kPoints = [] {
  using enum RoundingPoint;
  return std::array<RoundingPointInfo, kRoundingPoints>{{
      {input, "input", "the target's hidden states, as the drafter receives them", true, true, true},
      {linear_output, "linear_output", "output of every projection but router and lm_head", true, true, true},
      {norm_output, "norm_output", "output of every RMSNorm, and the normalised value before the weight", true, true,
       true},
      {residual, "residual", "residual1 and residual2", true, true, true},
      {rope_table, "rope_table", "cos and sin (frequencies and angles are float32)", true, true, false},
      {rope_output, "rope_output", "rotated queries and keys, the indexer's too", true, true, true},
      {index_key_norm, "index_key_norm", "output of the indexer's LayerNorm (computed in float32)", true, true, true},
      {index_weights, "index_weights", "the indexer's head weights before their scales", true, false, true},
      {absorbed_query, "absorbed_query", "q_nope W_uk, the query in the latent space", true, false, true},
      {absorbed_output, "absorbed_output", "probabilities times latents, before W_uv", true, false, true},
      {expanded_keys, "expanded_keys", "each head's keys and values", false, true, false},
      {attention_logits, "attention_logits", "q k, and q k times the scale", false, true, false},
      {probabilities, "probabilities", "softmax, after the division", false, true, false},
      {exponentials, "exponentials", "e^(l - max) for the product with the values; their sum stays wide", true, false,
       true},
      {attention_output, "attention_output", "attn_out", true, true, true},
      {gate_sigmoid, "gate_sigmoid", "sigmoid of the output gate", true, true, true},
      {gated, "gated", "attn_out times the gate", true, true, true},
      {silu, "silu", "silu of the gate projection", true, true, true},
      {mlp_product, "mlp_product", "silu(gate) times up", true, true, true},
      {expert_down, "expert_down", "an expert's output before its weight", false, true, false},
      {expert_weighted, "expert_weighted", "an expert's output times its weight", true, true, true},
      {expert_sum, "expert_sum", "the sum over experts after each addition (elsewhere only at its end)", false, true,
       false},
      {mlp_sum, "mlp_sum", "experts_out and experts_out + shared_out", true, true, true},
  }};
}();

}  // namespace

std::span<const RoundingPointInfo> all_rounding_points() { return kPoints; }

AttentionRounding RoundingPlan::attention_rounding() const {
  using enum RoundingPoint;
  return {format, at(attention_logits), at(probabilities), at(exponentials)};
}

RoundingPlan rounding_plan(Precision precision, std::string_view preset) {
  using enum RoundingPoint;
  const bool vllm = preset == "vllm";
  const bool transformers = preset == "transformers";
  const bool sglang = preset == "sglang";
  if (!vllm && !transformers && !sglang) {
    throw usage_error(
        fmt::format("no rounding points are known for \"{}\"; known: vllm, transformers, sglang", preset));
  }
  RoundingPlan plan;
  plan.attention = transformers ? AttentionForm::expanded : AttentionForm::absorbed;
  if (precision == Precision::f64 || precision == Precision::f32) return plan;
  plan.format = precision == Precision::bf16 ? Format::bf16 : Format::f16;
  plan.norm_reads_wide_residual = vllm;
  for (const auto& row : kPoints) {
    if ((vllm && row.vllm) || (transformers && row.transformers) || (sglang && row.sglang)) {
      plan.points.set(static_cast<std::size_t>(row.point));
    }
  }
  return plan;
}

std::optional<RoundingPoint> rounding_point_of(Stage stage) {
  using enum RoundingPoint;
  switch (stage) {
    case Stage::enorm:
    case Stage::hnorm:
    case Stage::input_layernorm:
    case Stage::q_c:
    case Stage::kv_c:
    case Stage::post_attention_layernorm:
    case Stage::final_layernorm:
      return norm_output;
    case Stage::eh_proj:
    case Stage::q_a:
    case Stage::q:
    case Stage::kv_a:
    case Stage::gate:
    case Stage::o_proj:
    case Stage::shared_out:
      return linear_output;
    case Stage::embed_masked:
      return input;
    case Stage::q_rope:
    case Stage::k_pe:
    case Stage::indexer_q:
    case Stage::indexer_k:
      return rope_output;
    case Stage::attn_probs:
      return probabilities;
    case Stage::attn_out:
      return attention_output;
    case Stage::gated:
      return gated;
    case Stage::residual1:
    case Stage::residual2:
      return residual;
    case Stage::experts_out:
    case Stage::mlp_out:
      return mlp_sum;
    case Stage::indexer_weights:
    case Stage::indexer_scores:
    case Stage::topk_indices:
    case Stage::router_logits:
    case Stage::topk_experts:
    case Stage::topk_weights:
    case Stage::logits:
      break;
  }
  return std::nullopt;
}

}  // namespace mtpcheck
