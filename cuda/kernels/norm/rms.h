#pragma once

#include "cuda/kernels/numeric/bfloat.h"
#include "cuda/kernels/numeric/reduce.h"
#include "cuda/kernels/numeric/rows.h"

/// Root mean square of a row held by a block, in steps of eight neighbours a thread.
namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// Threads for rows of n: one for every eight entries, whole warps, at most 512.
constexpr int threads_for_row(int n) {
  const int wanted = round_up(ceil_div(n, 8), 32);
  return wanted < 512 ? wanted : 512;
}

/// 1 / sqrt(mean(x²) + eps) of n entries. All threads of the block must call it.
__device__ inline float inverse_rms(const bf16* x, int n, float eps, float* scratch) {
  float sum = 0;
  for (int i = 8 * static_cast<int>(threadIdx.x); i < n; i += 8 * static_cast<int>(blockDim.x)) {
    float v[8];
    load8(x + i, n - i, v);
#pragma unroll
    for (float e : v) sum += e * e;
  }
  return 1.0f /
         sqrtf(block_sum(sum, scratch) / static_cast<float>(SIMT_MUTANT(mean_over_padded_row) ? row_stride(n) : n) +
               eps);
}

/// y = x · scale · w
__device__ inline void write_scaled(const bf16* x, const float* w, float scale, int n, bf16* y) {
  for (int i = 8 * static_cast<int>(threadIdx.x); i < n; i += 8 * static_cast<int>(blockDim.x)) {
    float v[8];
    load8(x + i, n - i, v);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      if (i + j < n) v[j] *= scale * w[i + j];
    }
    store8(y + i, n - i, v);
  }
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
