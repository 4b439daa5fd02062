#include "reference/head/stages/stage_inputs.h"

namespace mtpcheck {

std::vector<Stage> stages_of(const HeadConfig& config) {
  using enum Stage;
  std::vector<Stage> out;
  for (const auto& row : all_stages()) {
    switch (row.stage) {
      case indexer_q:
      case indexer_k:
      case indexer_weights:
      case indexer_scores:
      case topk_indices:
        if (!config.sparse_attention) continue;
        break;
      case gate:
        if (config.gate == GateKind::none) continue;
        break;
      case router_logits:
      case topk_experts:
      case topk_weights:
      case experts_out:
        if (!config.sparse_mlp) continue;
        break;
      case shared_out:
        if (!config.sparse_mlp || config.n_shared_experts == 0) continue;
        break;
      default:
        break;
    }
    out.push_back(row.stage);
  }
  return out;
}

std::vector<std::vector<Stage>> stage_inputs(Stage stage, const HeadConfig& config, const Conventions& conventions) {
  using enum Stage;
  switch (stage) {
    case embed_masked:
    case hnorm:
      return {{}};
    case enorm:
      return {{embed_masked}};
    case eh_proj:
      return {{enorm, hnorm}};
    case input_layernorm:
      return {{eh_proj}};
    case q_a:
    case kv_a:
    case gate:
    case indexer_k:
    case indexer_weights:
      return {{input_layernorm}};
    case q_c:
      return {{q_a}};
    case q:
    case indexer_q:
      return {{q_c}};
    case q_rope:
      return {{q}};
    case kv_c:
    case k_pe:
      return {{kv_a}};
    case indexer_scores:
      // Quantised queries and keys are recorded as codes; their scales come from the values before quantisation.
      if (conventions.indexer_fp8) return {{q_c, input_layernorm, indexer_weights}};
      return {{indexer_q, indexer_k, indexer_weights}};
    case topk_indices:
      if (conventions.indexer_fp8) return {{indexer_scores}, {q_c, input_layernorm, indexer_weights}};
      return {{indexer_scores}, {indexer_q, indexer_k, indexer_weights}};
    case attn_probs:
      if (config.sparse_attention) return {{q, q_rope, kv_c, k_pe, topk_indices}};
      return {{q, q_rope, kv_c, k_pe}};
    case attn_out:
      if (config.sparse_attention) return {{attn_probs, kv_c}, {q, q_rope, kv_c, k_pe, topk_indices}};
      return {{attn_probs, kv_c}, {q, q_rope, kv_c, k_pe}};
    case gated:
      if (config.gate == GateKind::none) return {{attn_out}};
      return {{attn_out, gate}};
    case o_proj:
      return {{gated}};
    case residual1:
      return {{o_proj, eh_proj}};
    case post_attention_layernorm:
      return {{residual1}};
    case router_logits:
    case shared_out:
      return {{post_attention_layernorm}};
    case topk_experts:
      return {{router_logits}};
    case topk_weights:
      return {{router_logits, topk_experts}};
    case experts_out:
      return {{post_attention_layernorm, topk_experts, topk_weights}};
    case mlp_out:
      if (!config.sparse_mlp) return {{post_attention_layernorm}};
      if (config.n_shared_experts == 0) return {{experts_out}};
      return {{experts_out, shared_out}};
    case residual2:
      return {{mlp_out, residual1}};
    case final_layernorm:
      return {{residual2}};
    case logits:
      return {{final_layernorm}};
  }
  return {{}};
}

}  // namespace mtpcheck
