#pragma once

#include "reference/head/stages/frame.h"

namespace mtpcheck {

/// router_logits: W_r x.   [T, E]
template <class S>
Rows<S> router_logits(const Frame<S>& frame);

/// topk_experts: the K best of sigmoid(logit) + bias, ascending ids.   [T, K]
template <class S>
ExpertChoice compute_topk_experts(const Frame<S>& frame);

/// topk_weights: sigmoid(logit) of the chosen, normalised, times routed_scaling_factor.   [T, K]
template <class S>
Rows<S> topk_weights(const Frame<S>& frame);

/// experts_out: Σ_e weight_e · down_e(swiglu(gate_e x, up_e x)), with the clamp.   [T, H]
template <class S>
Rows<S> experts_out(const Frame<S>& frame);

/// shared_out: the same of the shared expert, without a clamp.   [T, H]
template <class S>
Rows<S> shared_out(const Frame<S>& frame);

/// mlp_out: experts_out + shared_out, or the dense MLP.   [T, H]
template <class S>
Rows<S> mlp_out(const Frame<S>& frame);

}  // namespace mtpcheck
