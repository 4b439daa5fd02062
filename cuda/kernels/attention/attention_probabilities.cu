// Attention probabilities for a trace: one block a token and head. Not on any fast path.
//   in   query, cache bf16, indices      out  probabilities [N, T, S] f32, filled with zeros beforehand
#include "cuda/kernels/attention/key_selection.h"
#include "cuda/kernels/attention/sparse_attention.h"
#include "cuda/kernels/norm/latent.h"
#include "cuda/kernels/numeric/bfloat.h"
#include "cuda/kernels/numeric/reduce.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

namespace {

constexpr int kThreads = 64;

__global__ void __launch_bounds__(kThreads)
    attention_probabilities_kernel(const __grid_constant__ AttentionProbabilities p) {
  SIMT_SHARED(float, warp_largest, kThreads / 32);
  SIMT_SHARED(float, scratch, 32);
  const SparseAttention& a = p.attention;
  const LatentLayout layout(a.kv_rank, a.rope);
  const std::int64_t token = blockIdx.x;
  const std::int64_t head = blockIdx.y;
  const KeySelection selection(a, token);
  const bf16* const query = a.query + (token * a.heads + head) * layout.stride;
  float* const out = p.probabilities + (head * a.tokens + token) * a.max_keys;

  float largest = a.sink == nullptr ? -INFINITY : a.sink[head];
  for (int j = warp_id(); j < selection.count; j += kThreads / 32) {
    const int key = selection.key(j);
    if (key < 0) break;
    const bf16* const row = a.cache + (static_cast<std::int64_t>(a.key_bases[token]) + key) * layout.stride;
    float dot = 0;
    for (int i = lane_id(); i < layout.stride; i += 32) dot += from_bf16(query[i]) * from_bf16(row[i]);
    dot = warp_sum(dot) * a.scale;
    if (lane_id() == 0) out[key] = dot;
    largest = fmaxf(largest, dot);
  }
  if (lane_id() == 0) warp_largest[warp_id()] = largest;
  __syncthreads();
  for (float other : warp_largest) largest = fmaxf(largest, other);

  float sum = 0;
  for (int j = static_cast<int>(threadIdx.x); j < selection.count; j += kThreads) {
    const int key = selection.key(j);
    if (key < 0) break;
    out[key] = expf(out[key] - largest);
    sum += out[key];
  }
  const float divisor = block_sum(sum, scratch) + (a.sink == nullptr ? 0.0f : expf(a.sink[head] - largest));
  for (int j = static_cast<int>(threadIdx.x); j < selection.count; j += kThreads) {
    const int key = selection.key(j);
    if (key < 0) break;
    out[key] /= divisor;
  }
}

}  // namespace

void attention_probabilities(Stream stream, const AttentionProbabilities& p) {
  if (p.attention.tokens == 0) return;
  simt::launch_on(stream, attention_probabilities_kernel, dim3(p.attention.tokens, p.attention.heads), dim3(kThreads),
                  0, p);
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
