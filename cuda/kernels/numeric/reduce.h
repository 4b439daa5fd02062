#pragma once

#include "cuda/simt/simt.h"

/// Sums and maxima over a warp and over a block. Every lane gets the result; the order of additions is fixed.
namespace mtpcheck::cuda::inline SIMT_BACKEND {

__device__ inline int lane_id() { return static_cast<int>(threadIdx.x) & 31; }
__device__ inline int warp_id() { return static_cast<int>(threadIdx.x) >> 5; }

template <class T>
__device__ T warp_sum(T v) {
#pragma unroll
  for (int offset = 16; offset > (SIMT_MUTANT(sum_of_half_a_warp) ? 1 : 0); offset >>= 1) {
    v += __shfl_xor_sync(~0u, v, offset, SIMT_MUTANT(sum_with_narrow_shuffle) ? 16 : 32);
  }
  return v;
}

__device__ inline float warp_max(float v) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, offset));
  return v;
}

/// Over a block of whole warps, at most 32. All threads must call it; `scratch` is [32], free again on return.
template <class T>
__device__ T block_sum(T v, T* scratch) {
  v = warp_sum(v);
  if (blockDim.x <= 32) return v;
  if (lane_id() == 0) scratch[warp_id()] = v;
  if (!SIMT_MUTANT(sum_without_barrier)) __syncthreads();
  T total = 0;
  for (int w = 0; w < static_cast<int>(blockDim.x) / 32; ++w) total += scratch[w];
  if (!SIMT_MUTANT(sum_leaves_scratch_in_use)) __syncthreads();
  return total;
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
