#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "cuda/simt/simt.h"

/// bf16 in registers: conversions, and loads and stores of eight neighbours.
namespace mtpcheck::cuda::inline SIMT_BACKEND {

using bf16 = __nv_bfloat16;

__device__ inline float from_bf16(bf16 x) { return __bfloat162float(x); }
/// To nearest, ties to even.
__device__ inline bf16 to_bf16(float x) { return __float2bfloat16(x); }
/// What is left of x once it has been stored as bf16.
__device__ inline float round_bf16(float x) { return __bfloat162float(__float2bfloat16(x)); }

/// The lower and the upper half of a register that holds two bf16.
__device__ inline float low_bf16(std::uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ inline float high_bf16(std::uint32_t pair) { return __uint_as_float(pair & 0xFFFF0000u); }

__device__ inline std::uint32_t bits_of(bf16 x) { return __builtin_bit_cast(std::uint16_t, x); }
__device__ inline std::uint32_t pack_bf16(float low, float high) {
  return bits_of(to_bf16(low)) | (bits_of(to_bf16(high)) << 16);
}

__device__ inline bool aligned16(const void* p) { return (reinterpret_cast<std::uintptr_t>(p) & 15u) == 0; }

/// Entries p[0 … 7] as the four registers of a 16-byte load; entries from `count` on are zero and not touched.
__device__ inline uint4 load8_bits(const bf16* p, int count) {
  if (count >= 8 && aligned16(p)) return *reinterpret_cast<const uint4*>(p);
  std::uint32_t word[4] = {0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (i < count || SIMT_MUTANT(load_of_unmasked_tail)) word[i / 2] |= bits_of(p[i]) << (16 * (i % 2));
  }
  return uint4{word[0], word[1], word[2], word[3]};
}

__device__ inline void unpack8(const uint4& bits, float (&v)[8]) {
  v[0] = low_bf16(bits.x), v[1] = high_bf16(bits.x);
  v[2] = low_bf16(bits.y), v[3] = high_bf16(bits.y);
  v[4] = low_bf16(bits.z), v[5] = high_bf16(bits.z);
  v[6] = low_bf16(bits.w), v[7] = high_bf16(bits.w);
}

__device__ inline void load8(const bf16* p, int count, float (&v)[8]) { unpack8(load8_bits(p, count), v); }

/// Stores the first `count` (at most 8) of v, rounded.
__device__ inline void store8(bf16* p, int count, const float (&v)[8]) {
  if (count >= 8 && aligned16(p)) {
    *reinterpret_cast<uint4*>(p) =
        uint4{pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]), pack_bf16(v[4], v[5]), pack_bf16(v[6], v[7])};
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (i < count || SIMT_MUTANT(store_of_unmasked_tail)) p[i] = to_bf16(v[i]);
  }
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
