#include "cuda/head/activations.h"

#include <algorithm>

#include "cuda/kernels/attention/sparse_attention.h"
#include "cuda/kernels/indexer/index_layout.h"
#include "cuda/kernels/norm/latent.h"
#include "cuda/kernels/numeric/rows.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {
namespace {

constexpr std::size_t kScoreBytes = std::size_t{64} << 20;
constexpr int kExpertTokens = 512;

template <class T>
Buffer<T> rows(int count, int width) {
  return Buffer<T>(static_cast<std::size_t>(count) * row_stride(width));
}

int score_rows_for(int tokens, int keys) {
  const std::size_t fitting = kScoreBytes / (sizeof(float) * static_cast<std::size_t>(std::max(keys, 1)));
  return static_cast<int>(std::clamp<std::size_t>(fitting, 1, static_cast<std::size_t>(std::max(tokens, 1))));
}

}  // namespace

Activations::Activations(const HeadShape& s, bool headwise_gate, int token_count, int key_count, int multiprocessors)
    : tokens(token_count),
      keys(key_count),
      splits(attention_splits(token_count, s.heads, s.sparse() ? std::min(s.top_k, key_count) : key_count,
                              multiprocessors)),
      score_rows(score_rows_for(token_count, key_count)),
      expert_tokens(std::min(std::max(token_count, 1), kExpertTokens)) {
  const LatentLayout layout(s.kv_rank, s.rope);
  const int t = tokens;
  const auto hidden = [&] { return rows<__nv_bfloat16>(t, s.hidden); };
  concatenated = rows<__nv_bfloat16>(t, 2 * s.hidden);
  embed_masked = hidden();
  eh_proj = hidden();
  input_layernorm = hidden();
  q_a = rows<__nv_bfloat16>(t, s.q_rank);
  q_c = rows<__nv_bfloat16>(t, s.q_rank);
  q = rows<__nv_bfloat16>(t, s.heads * s.query_dims());
  query = Buffer<__nv_bfloat16>(static_cast<std::size_t>(t) * s.heads * layout.stride);
  kv_a = rows<__nv_bfloat16>(t, s.kv_rank + s.rope);
  if (s.sparse()) {
    index_q = rows<__nv_bfloat16>(t, s.index_heads * s.index_dims);
    index_queries = Buffer<__nv_bfloat16>(static_cast<std::size_t>(t) * s.index_heads * index_stride(s.index_dims));
    index_projected = rows<__nv_bfloat16>(t, s.index_dims);
    index_keys = rows<__nv_bfloat16>(t, s.index_dims);
    index_raw_weights = rows<float>(t, s.index_heads);
    index_weights = rows<float>(t, s.index_heads);
    index_head_weights = rows<float>(t, s.index_heads);
    scores = Buffer<float>(static_cast<std::size_t>(score_rows) * std::max(keys, 1));
    top_k = Buffer<std::int32_t>(static_cast<std::size_t>(t) * s.top_k);
  }
  if (splits > 1) {
    const std::size_t parts = static_cast<std::size_t>(t) * splits * s.heads;
    partial = Buffer<float>(parts * layout.latent);
    partial_sums = Buffer<float>(parts * 2);
  }
  attention_latent = Buffer<__nv_bfloat16>(static_cast<std::size_t>(t) * s.heads * layout.latent);
  attn_out = rows<__nv_bfloat16>(t, s.heads * s.value);
  gate = rows<__nv_bfloat16>(t, headwise_gate ? s.heads : s.heads * s.value);
  gated = rows<__nv_bfloat16>(t, s.heads * s.value);
  o_proj = hidden();
  residual1 = hidden();
  post_attention_layernorm = hidden();
  if (s.experts > 0) {
    const int pairs_at_once = expert_tokens * s.used_experts;
    router_logits = rows<float>(t, s.experts);
    expert_weights = Buffer<float>(static_cast<std::size_t>(t) * s.used_experts);
    chosen_experts = Buffer<std::int32_t>(static_cast<std::size_t>(t) * s.used_experts);
    offsets = Buffer<std::int32_t>(static_cast<std::size_t>(s.experts) + 1);
    pairs = Buffer<std::int32_t>(pairs_at_once);
    places = Buffer<std::int32_t>(pairs_at_once);
    active = Buffer<std::int32_t>(s.experts);
    active_count = Buffer<std::int32_t>(1);
    expert_act = rows<__nv_bfloat16>(pairs_at_once, s.inner);
    expert_y = rows<float>(pairs_at_once, s.hidden);
  }
  if (s.plain_inner > 0) {
    plain_act = rows<__nv_bfloat16>(t, s.plain_inner);
    plain_y = rows<float>(t, s.hidden);
  }
  experts_out = hidden();
  shared_out = hidden();
  mlp_out = hidden();
  residual2 = hidden();
  final_layernorm = hidden();
  logits = rows<float>(t, s.vocabulary);
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
