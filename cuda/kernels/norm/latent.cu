// Both latent norms, RoPE on the shared key and the cache write, from one GEMM's output: one block a token.
//   in   q_a [T, Lq], kv_a [T, Lkv + r] bf16      out  q_c [T, Lq], cache rows [T, Lkv + r] bf16
//   bytes 4·T·(Lq + Lkv + r); at T = 16 and Hy4-preview's shapes 0.17 MB: 0.04 µs at 4.8 TB/s. Launch-bound.
#include "cuda/kernels/norm/latent.h"
#include "cuda/kernels/norm/rms.h"
#include "cuda/kernels/norm/rope.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

namespace {

__global__ void latent_norms_kernel(LatentNorms p) {
  SIMT_SHARED(float, scratch, 32);
  const auto token = static_cast<std::int64_t>(blockIdx.x);
  const bf16* const q_a = p.q_a + token * row_stride(p.q_rank);
  write_scaled(q_a, p.q_norm, inverse_rms(q_a, p.q_rank, p.eps, scratch), p.q_rank,
               p.q_c + token * row_stride(p.q_rank));

  const LatentLayout layout(p.kv_rank, p.rope.dims);
  const bf16* const kv_a = p.kv_a + token * row_stride(p.kv_rank + p.rope.dims);
  bf16* const row = p.cache + static_cast<std::int64_t>(p.cache_rows[token]) * layout.stride;
  write_scaled(kv_a, p.kv_norm, inverse_rms(kv_a, p.kv_rank, p.eps, scratch), p.kv_rank, row);

  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  for (int i = thread; i < p.rope.dims / 2; i += threads) {
    const int first = rope_first(i, p.rope.half_split);
    const int second = rope_second(i, p.rope.dims, p.rope.half_split);
    const float2 turned = rotated(from_bf16(kv_a[p.kv_rank + first]), from_bf16(kv_a[p.kv_rank + second]),
                                  rope_factors(p.positions[token], p.rope.half_turns[i], p.rope.scale));
    row[layout.latent + first] = to_bf16(turned.x);
    row[layout.latent + second] = to_bf16(turned.y);
  }
  for (int i = p.kv_rank + thread; i < layout.latent; i += threads) row[i] = to_bf16(0);
  for (int i = layout.latent + p.rope.dims + thread; i < layout.stride; i += threads) row[i] = to_bf16(0);
}

}  // namespace

void latent_norms(Stream stream, const LatentNorms& p) {
  if (p.tokens == 0) return;
  simt::launch_on(stream, latent_norms_kernel, dim3(p.tokens), dim3(threads_for_row(max(p.q_rank, p.kv_rank))), 0, p);
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
