#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "cuda/head/shape.h"
#include "cuda/kernels/moe/dispatch.h"
#include "cuda/runtime/memory.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// Where a step keeps what it computes: one buffer a stage, so that every stage can be recorded once the step is done.
/// Rows lie as rows.h says.
struct Activations {
  /// For `tokens` rows that see at most `keys` keys each. `multiprocessors` decides how finely attention is split.
  Activations(const HeadShape& shape, bool headwise_gate, int tokens, int keys, int multiprocessors);

  int tokens;
  int keys;
  int splits;         ///< attention's, for `tokens` rows
  int score_rows;     ///< rows whose index scores are held at a time
  int expert_tokens;  ///< tokens whose experts' outputs are held at a time

  Buffer<__nv_bfloat16> concatenated;  ///< [T, 2H] enorm ‖ hnorm
  Buffer<__nv_bfloat16> embed_masked, eh_proj, input_layernorm;
  Buffer<__nv_bfloat16> q_a, q_c, q, query;  ///< query: [T, N, LatentLayout::stride]
  Buffer<__nv_bfloat16> kv_a;
  Buffer<__nv_bfloat16> index_q, index_queries, index_projected, index_keys;
  Buffer<float> index_raw_weights, index_weights, index_head_weights;
  Buffer<float> scores;  ///< [score_rows, S]
  Buffer<std::int32_t> top_k;
  Buffer<float> partial, partial_sums;
  Buffer<__nv_bfloat16> attention_latent, attn_out, gate, gated, o_proj, residual1, post_attention_layernorm;
  Buffer<float> router_logits, expert_weights;
  Buffer<std::int32_t> chosen_experts;
  Buffer<std::int32_t> offsets, pairs, places, active, active_count;
  Buffer<__nv_bfloat16> expert_act, plain_act;
  Buffer<float> expert_y, plain_y;
  Buffer<__nv_bfloat16> experts_out, shared_out, mlp_out, residual2, final_layernorm;
  Buffer<float> logits;

  ExpertLists lists() const {
    return {offsets.data(), pairs.data(), places.data(), active.data(), active_count.data()};
  }
};

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
