#pragma once

#include <cuda_fp8.h>

#include "cuda/kernels/numeric/bfloat.h"

/// FP8 E4M3 ("fn": no infinities, NaN is 0x7F and 0xFF) and the power-of-two scales E8M0 in registers.
namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// The bf16 pair of E4M3 codes that lie in the upper byte of each half of `spread`. Exact, but for NaN, which reads as
/// ±480: find it with e4m3_nan_bits.
///
/// Shifted by four, a code's exponent and mantissa fall into bf16's fields with an exponent bias 120 too small,
/// subnormal codes included; one multiplication by 2^120 corrects it.
__device__ inline std::uint32_t e4m3_pair_to_bf16(std::uint32_t spread) {
  const std::uint32_t shifted = (spread & 0x80008000u) | ((spread & 0x7F007F00u) >> 4);
  const __nv_bfloat162 small(__builtin_bit_cast(__nv_bfloat162_raw, shifted));
  const __nv_bfloat162 two_to_120(__nv_bfloat162_raw{0x7B80, 0x7B80});
  return __builtin_bit_cast(std::uint32_t, static_cast<__nv_bfloat162_raw>(__hmul2(small, two_to_120)));
}

/// Four codes → four bf16 in ascending order.
__device__ inline uint2 e4m3x4_to_bf16(std::uint32_t codes) {
  return uint2{e4m3_pair_to_bf16(__byte_perm(codes, 0, 0x1404)), e4m3_pair_to_bf16(__byte_perm(codes, 0, 0x3424))};
}

/// Not zero exactly if one of the four codes is NaN.
__device__ inline std::uint32_t e4m3_nan_bits(std::uint32_t codes) {
  return ((codes & 0x7F7F7F7Fu) + 0x01010101u) & 0x80808080u;
}

/// 2^(bits − 127); 255 is NaN, 0 the float32 subnormal 2^−127.
__device__ inline float e8m0_to_float(std::uint32_t bits) {
  if (bits == 255u) return __uint_as_float(0x7FC00000u);
  return __uint_as_float(bits == 0 ? 0x00400000u : bits << 23);
}

/// To nearest, ties to even, saturating at ±448; NaN stays NaN.
__device__ inline std::uint8_t to_e4m3(float x) {
  return static_cast<std::uint8_t>(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3));
}
__device__ inline float from_e4m3(std::uint8_t code) {
  if ((code & 0x7Fu) == 0x7Fu) return __uint_as_float(0x7FC00000u);
  return low_bf16(e4m3_pair_to_bf16(static_cast<std::uint32_t>(code) << 8));
}

/// The scale of a row whose largest magnitude is `amax`: the least power of two that brings it to at most 448.
/// Source: vLLM's per_token_group_quant_fp8 with use_ue8m0 (magnitudes below 1e-10 count as 1e-10).
__device__ inline float power_of_two_scale(float amax) {
  const std::uint32_t bits = __float_as_uint(fmaxf(amax, 1e-10f) / 448.0f);
  return __uint_as_float((bits + 0x007FFFFFu) & 0x7F800000u);
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
