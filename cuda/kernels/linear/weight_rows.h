#pragma once

#include "cuda/kernels/linear/weight_view.h"
#include "cuda/kernels/numeric/fp8.h"
#include "cuda/kernels/numeric/fragments.h"

/// Rows of a weight matrix as a lane reads them: eight neighbours of a row at a time, decoded to bf16 in registers.
///
/// bf16 and E4M3 are exact in bf16, so a product is as exact as float32 sums allow; scales are applied to the sums of
/// 32 columns, never to the elements.
namespace mtpcheck::cuda::inline SIMT_BACKEND {

struct Bf16Row {
  using Element = bf16;
  using Raw = uint4;
  static constexpr bool kScaled = false;

  const bf16* data = nullptr;  ///< nullptr: a row of zeros

  __device__ static Bf16Row of(const WeightView& w, std::int64_t matrix, int row) {
    if (row >= w.rows) return {};
    return {static_cast<const bf16*>(w.data) + matrix * w.matrix_stride + static_cast<std::int64_t>(row) * w.stride};
  }
  __device__ Raw load(int column) const {
    return data == nullptr ? Raw{0, 0, 0, 0} : __ldcs(reinterpret_cast<const uint4*>(data + column));
  }
  __device__ float scale(int /*column*/) const { return 1.0f; }
  __device__ static uint4 decode(const Raw& raw) { return raw; }
  __device__ static std::uint32_t nan_bits(const Raw& /*raw*/) { return 0; }
};

template <bool kPowersOfTwo>
struct Fp8Row {
  using Element = std::uint8_t;
  using Raw = uint2;
  using Scale = std::conditional_t<kPowersOfTwo, std::uint8_t, float>;
  static constexpr bool kScaled = true;

  const std::uint8_t* data = nullptr;
  const Scale* scales = nullptr;
  int column_shift = 31;

  __device__ static Fp8Row of(const WeightView& w, std::int64_t matrix, int row) {
    if (row >= w.rows) return {};
    return {
        static_cast<const std::uint8_t*>(w.data) + matrix * w.matrix_stride + static_cast<std::int64_t>(row) * w.stride,
        static_cast<const Scale*>(w.scales) + matrix * w.scale_matrix_stride +
            static_cast<std::int64_t>(row / w.block_rows) * w.scale_stride,
        w.column_shift};
  }
  __device__ Raw load(int column) const {
    return data == nullptr ? Raw{0, 0} : __ldcs(reinterpret_cast<const uint2*>(data + column));
  }
  __device__ float scale(int column) const {
    if (data == nullptr) return 0.0f;
    if constexpr (kPowersOfTwo) {
      return e8m0_to_float(scales[column >> column_shift]);
    } else {
      return scales[column >> column_shift];
    }
  }
  __device__ static uint4 decode(const Raw& raw) {
    const uint2 low = e4m3x4_to_bf16(raw.x);
    const uint2 high = e4m3x4_to_bf16(raw.y);
    return uint4{low.x, low.y, high.x, high.y};
  }
  __device__ static std::uint32_t nan_bits(const Raw& raw) { return e4m3_nan_bits(raw.x) | e4m3_nan_bits(raw.y); }
};

using Fp8BlockRow = Fp8Row<false>;
using MxFp8Row = Fp8Row<true>;

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
