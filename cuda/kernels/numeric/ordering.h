#pragma once

#include <cstdint>

#include "cuda/simt/simt.h"

/// Floats as unsigned integers of the same order, for selections.
namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// Larger floats give larger integers; −0 equals +0; every NaN is the largest, as in torch.topk.
__device__ inline std::uint32_t ordered_bits(float x) {
  const std::uint32_t bits = __float_as_uint(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return 0xFFFFFFFFu;
  if ((bits & 0x7FFFFFFFu) == 0 && !SIMT_MUTANT(negative_zero_below_zero)) return 0x80000000u;
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

/// A key whose maximum is the largest value, and among equals the lowest index.
__device__ inline unsigned long long selection_key(float x, int index) {
  return (static_cast<unsigned long long>(ordered_bits(x)) << 32) | (0xFFFFFFFFu - static_cast<std::uint32_t>(index));
}
__device__ inline int selected_index(unsigned long long key) {
  return static_cast<int>(0xFFFFFFFFu - static_cast<std::uint32_t>(key));
}

__device__ inline unsigned long long warp_max_key(unsigned long long key) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) {
    const unsigned long long other = __shfl_xor_sync(~0u, key, offset);
    key = other > key || SIMT_MUTANT(maximum_takes_the_other_lane) ? other : key;
  }
  return key;
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
