#pragma once

#include <cmath>
#include <vector>

#include "cuda/kernels/linear/weight_view.h"
#include "cuda/kernels/testing/rows.h"
#include "reference/tensor/float_formats.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// A stack of random weight matrices in one of the formats, with their decoded values in float64.
struct TestWeights {
  int matrices = 1;
  int rows = 0;
  int cols = 0;
  std::vector<double> values;  // [matrices, rows, cols]
  Buffer<std::uint8_t> data;
  Buffer<std::uint8_t> scales;
  WeightView view;

  double at(int matrix, int row, int col) const {
    return values[(static_cast<std::size_t>(matrix) * rows + row) * cols + col];
  }
};

struct Grid {
  int block_rows = 1;
  int column_shift = 5;
};

inline TestWeights random_weights(Random& random, WeightFormat format, int matrices, int rows, int cols,
                                  Grid grid = {}) {
  TestWeights w{.matrices = matrices, .rows = rows, .cols = cols, .values = {}, .data = {}, .scales = {}, .view = {}};
  std::normal_distribution<double> normal;
  const int stride = weight_stride(cols);
  const int grid_rows = ceil_div(rows, grid.block_rows);
  const int grid_cols = grid.column_shift >= 31 ? 1 : ceil_div(cols, 1 << grid.column_shift);
  const std::size_t cells = static_cast<std::size_t>(matrices) * grid_rows * grid_cols;
  std::vector<double> cell_values;
  std::vector<std::uint8_t> scale_bytes;
  for (std::size_t i = 0; i < cells; ++i) {
    if (format == WeightFormat::e4m3_e8m0) {
      scale_bytes.push_back(static_cast<std::uint8_t>(draw(random, 118, 124)));
      cell_values.push_back(static_cast<double>(e8m0_to_f32(scale_bytes.back())));
    } else {
      const auto scale = static_cast<float>(0.01 * std::abs(normal(random)) + 0.001);
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(&scale);
      scale_bytes.insert(scale_bytes.end(), bytes, bytes + 4);
      cell_values.push_back(static_cast<double>(scale));
    }
  }
  std::vector<std::uint8_t> data(
      static_cast<std::size_t>(matrices) * rows * stride * (format == WeightFormat::bf16 ? 2 : 1), 0);
  for (int m = 0; m < matrices; ++m) {
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < cols; ++c) {
        const std::size_t at = (static_cast<std::size_t>(m) * rows + r) * stride + c;
        if (format == WeightFormat::bf16) {
          const std::uint16_t bits = f32_to_bf16(static_cast<float>(normal(random) * 0.3));
          data[2 * at] = static_cast<std::uint8_t>(bits & 0xFF);
          data[2 * at + 1] = static_cast<std::uint8_t>(bits >> 8);
          w.values.push_back(static_cast<double>(bf16_to_f32(bits)));
        } else {
          data[at] = f32_to_e4m3(static_cast<float>(normal(random) * 60.0));
          const int cell_col = grid.column_shift >= 31 ? 0 : c >> grid.column_shift;
          const std::size_t cell =
              (static_cast<std::size_t>(m) * grid_rows + r / grid.block_rows) * grid_cols + cell_col;
          w.values.push_back(static_cast<double>(e4m3_to_f32(data[at])) * cell_values[cell]);
        }
      }
    }
  }
  w.data = buffer_of(data);
  w.scales = buffer_of(scale_bytes);
  w.view = {.format = format,
            .data = w.data.data(),
            .rows = rows,
            .cols = cols,
            .stride = stride,
            .matrix_stride = static_cast<std::int64_t>(rows) * stride,
            .scales = w.scales.data(),
            .block_rows = grid.block_rows,
            .column_shift = grid.column_shift,
            .scale_stride = grid_cols,
            .scale_matrix_stride = static_cast<std::int64_t>(grid_rows) * grid_cols};
  return w;
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
