#pragma once

#include "reference/head/stages/frame.h"

namespace mtpcheck {

/// attn_out of multi-head latent attention over each row's selected keys and the sink.   [T, N·v]
///
///   expanded  k_h = [W_uk,h c ‖ k_pe], v_h = W_uv,h c        l = (n+r)^−½ [q_nope ‖ q_rope]_h · k_h
///   absorbed  q̃_h = W_uk,hᵀ q_nope,h                         l = (n+r)^−½ (q̃_h · c + q_rope,h · k_pe)
///             out_h = W_uv,h Σ p c
///
/// Rows attend to frame.topk_indices, or to all keys up to themselves where attention is dense. Fills
/// frame.attn_probs, [N·T, S] a sequence, where `keep_probabilities`.
///
/// Source: DeepSeek-V2, section 2.1.2 and appendix C.
template <class S>
Rows<S> compute_attention(Frame<S>& frame, bool keep_probabilities);

/// attn_out from frame.attn_probs and the latents.
template <class S>
Rows<S> compute_attention_from_probabilities(const Frame<S>& frame);

}  // namespace mtpcheck
