#pragma once

#include <cstddef>
#include <cstdint>

/// A weight matrix, or a stack of equally shaped ones, in device memory.
namespace mtpcheck::cuda {

enum class WeightFormat : std::uint8_t {
  bf16,
  e4m3_f32,   ///< E4M3 with a grid of float32 scales (FP8 block, per channel, per tensor)
  e4m3_e8m0,  ///< E4M3 with a grid of powers of two (MXFP8: 1 × 32)
};

/// Element (r, c) of matrix b is data[b·matrix_stride + r·stride + c], times
/// scales[b·scale_matrix_stride + (r / block_rows)·scale_stride + (c >> column_shift)].
struct WeightView {
  WeightFormat format = WeightFormat::bf16;
  const void* data = nullptr;
  int rows = 0;
  int cols = 0;
  int stride = 0;  ///< elements from row to row: cols rounded up to 32, zeros in between; rows start at 16 bytes
  std::int64_t matrix_stride = 0;
  const void* scales = nullptr;
  int block_rows = 1;
  int column_shift = 31;  ///< at least 5; 31: one scale for the whole row
  int scale_stride = 0;
  std::int64_t scale_matrix_stride = 0;
};

constexpr int weight_stride(int cols) { return (cols + 31) / 32 * 32; }

}  // namespace mtpcheck::cuda
