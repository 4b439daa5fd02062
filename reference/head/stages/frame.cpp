#include "reference/head/stages/frame.h"

#include "reference/head/stages/attention_stages.h"
#include "reference/head/stages/indexer_stages.h"
#include "reference/head/stages/input_stages.h"
#include "reference/head/stages/mlp_stages.h"
#include "reference/head/stages/projection.h"

namespace mtpcheck {
namespace {

/// What a norm after an addition reads: the stored sum, or the wide one where the engine fuses both.
template <class S>
const Rows<S>& residual_for_norm(const Frame<S>& frame, Stage stage) {
  const bool wide = frame.layer.rounding.norm_reads_wide_residual && frame.wide_residual.size() > 0;
  return wide ? frame.wide_residual : frame.at(stage);
}

}  // namespace

template <class S>
Rows<S> compute(Stage stage, const Frame<S>& frame) {
  const auto& layer = frame.layer;
  const auto& w = layer.weights;
  const double eps = layer.config.rms_norm_eps;
  const double latent_eps = layer.conventions.latent_norm_eps.value_or(eps);
  const auto in = [&](Stage input) -> const Rows<S>& { return frame.at(input); };
  switch (stage) {
    case Stage::embed_masked:
      return embed_masked(frame);
    case Stage::enorm:
      return layer.deviations.skip_enorm ? in(Stage::embed_masked)
                                         : norm_of(layer, in(Stage::embed_masked), w.enorm, eps);
    case Stage::hnorm:
      return hnorm(frame);
    case Stage::eh_proj:
      return eh_proj(frame);
    case Stage::input_layernorm:
      return norm_of(layer, in(Stage::eh_proj), w.input_layernorm, eps);
    case Stage::q_a:
      return linear_of(layer, in(Stage::input_layernorm), w.q_a_proj);
    case Stage::q_c:
      return norm_of(layer, in(Stage::q_a), w.q_a_layernorm, latent_eps);
    case Stage::q:
      return linear_of(layer, in(Stage::q_c), w.q_b_proj);
    case Stage::q_rope:
      return q_rope(frame);
    case Stage::kv_a:
      return linear_of(layer, in(Stage::input_layernorm), w.kv_a_proj);
    case Stage::kv_c:
      return kv_c(frame);
    case Stage::k_pe:
      return k_pe(frame);
    case Stage::indexer_weights:
      return indexer_weights(frame);
    case Stage::gate:
      return gate(frame);
    case Stage::gated:
      return gated(frame);
    case Stage::o_proj:
      return linear_of(layer, in(Stage::gated), w.o_proj);
    case Stage::residual1:
      return in(Stage::o_proj) + in(Stage::eh_proj);
    case Stage::post_attention_layernorm:
      return norm_of(layer, residual_for_norm(frame, Stage::residual1), w.post_attention_layernorm, eps);
    case Stage::router_logits:
      return router_logits(frame);
    case Stage::topk_weights:
      return topk_weights(frame);
    case Stage::experts_out:
      return experts_out(frame);
    case Stage::shared_out:
      return shared_out(frame);
    case Stage::mlp_out:
      return mlp_out(frame);
    case Stage::residual2:
      return in(Stage::mlp_out) + in(Stage::residual1);
    case Stage::final_layernorm:
      return norm_of(layer, residual_for_norm(frame, Stage::residual2), w.final_layernorm, eps);
    case Stage::logits:
      return project(layer, in(Stage::final_layernorm), w.lm_head);
    case Stage::indexer_q:
    case Stage::indexer_k:
    case Stage::indexer_scores:
    case Stage::topk_indices:
    case Stage::attn_probs:
    case Stage::attn_out:
    case Stage::topk_experts:
      break;  // run_stage
  }
  return {};
}

template Rows<float> compute(Stage, const Frame<float>&);
template Rows<double> compute(Stage, const Frame<double>&);

}  // namespace mtpcheck
