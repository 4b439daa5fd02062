#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "cuda/simt/simt.h"

/// Rotary position embedding inside a kernel.
namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// cos and sin of position · frequency, scaled. `half_turns` is the frequency in units of π a position, in float64: the
/// angle is reduced before it is rounded, so that a position of a million is as exact as position one.
__device__ inline float2 rope_factors(int position, double half_turns, float scale) {
  const double turns = static_cast<double>(position) * half_turns;
  const double reduced = turns - 2.0 * floor(turns * 0.5);  // [0, 2)
  const auto angle = static_cast<float>(reduced * 3.14159265358979323846);
  return float2{cosf(angle) * scale, sinf(angle) * scale};
}

/// Index of the two entries of pair i of `rope`: (2i, 2i+1), or (i, i + rope/2).
__device__ inline int rope_first(int i, bool half_split) { return half_split ? i : 2 * i; }
__device__ inline int rope_second(int i, int rope, bool half_split) { return half_split ? i + rope / 2 : 2 * i + 1; }

__device__ inline float2 rotated(float a, float b, float2 factors) {
  return float2{a * factors.x - b * factors.y, b * factors.x + a * factors.y};
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
