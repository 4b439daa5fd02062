#include "cuda/head/upload.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <vector>

#include "cuda/kernels/numeric/rows.h"
#include "reference/linear/linear.h"
#include "reference/tensor/float_formats.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {
namespace {

/// How E4M3 bytes can stay as they are.
struct KeptGrid {
  bool powers_of_two = false;
  int block_rows = 1;
  int column_shift = 31;
  int rows = 0;  ///< of the grid on the device
  int cols = 0;

  bool operator==(const KeptGrid&) const = default;
};

std::optional<KeptGrid> kept_grid(const Matrix& m) {
  if (m.dtype != Dtype::f8_e4m3) return std::nullopt;
  KeptGrid grid;
  const Scales& s = m.scales;
  const int rows = static_cast<int>(m.rows);
  if (s.data == nullptr) return KeptGrid{.block_rows = rows, .rows = 1, .cols = 1};
  grid.powers_of_two = s.dtype == Dtype::f8_e8m0;
  if (s.block_cols < m.cols) {
    if (s.block_cols < 32 || !std::has_single_bit(s.block_cols)) return std::nullopt;
    grid.column_shift = std::countr_zero(s.block_cols);
  }
  grid.cols = static_cast<int>((m.cols + s.block_cols - 1) / s.block_cols);
  // A slice that begins inside a block gets a row of cells for each of its own rows.
  if (s.first_row % s.block_rows == 0) grid.block_rows = static_cast<int>(std::min(s.block_rows, m.rows));
  grid.rows = ceil_div(rows, grid.block_rows);
  return grid;
}

float scale_at(const Scales& s, std::size_t row, std::size_t col) {
  const std::size_t at = row * s.stride + col;
  float wide = 0;
  std::uint16_t narrow = 0;
  switch (s.dtype) {
    case Dtype::f8_e8m0:
      return e8m0_to_f32(std::to_integer<std::uint8_t>(s.data[at]));
    case Dtype::bf16:
      std::memcpy(&narrow, s.data + 2 * at, 2);
      return bf16_to_f32(narrow);
    case Dtype::f16:
      std::memcpy(&narrow, s.data + 2 * at, 2);
      return f16_to_f32(narrow);
    default:
      std::memcpy(&wide, s.data + 4 * at, 4);
      return wide;
  }
}

/// The matrix' cells in the layout of `grid`.
std::vector<std::uint8_t> scale_cells(const Matrix& m, const KeptGrid& grid) {
  const Scales& s = m.scales;
  const std::size_t size = grid.powers_of_two ? 1 : 4;
  std::vector<std::uint8_t> cells(static_cast<std::size_t>(grid.rows) * grid.cols * size);
  for (int r = 0; r < grid.rows; ++r) {
    for (int c = 0; c < grid.cols; ++c) {
      std::uint8_t* const to = cells.data() + (static_cast<std::size_t>(r) * grid.cols + c) * size;
      const std::size_t row =
          s.data == nullptr ? 0 : (s.first_row + static_cast<std::size_t>(r) * grid.block_rows) / s.block_rows;
      if (grid.powers_of_two) {
        *to = std::to_integer<std::uint8_t>(s.data[row * s.stride + c]);
      } else {
        const float value = s.data == nullptr ? 1.0f : scale_at(s, row, c);
        std::memcpy(to, &value, 4);
      }
    }
  }
  return cells;
}

std::vector<std::uint16_t> bf16_rows(const Matrix& m, int stride) {
  std::vector<std::uint16_t> out(m.rows * stride, 0);
  std::vector<float> row(m.cols);
  for (std::size_t r = 0; r < m.rows; ++r) {
    std::uint16_t* const to = out.data() + r * stride;
    if (m.dtype == Dtype::bf16 && m.scales.data == nullptr) {
      std::memcpy(to, m.data + r * m.cols * 2, m.cols * 2);
      continue;
    }
    decode_row(m, r, 0, m.cols, row.data());
    std::transform(row.begin(), row.end(), to, f32_to_bf16);
  }
  return out;
}

DeviceMatrix upload_kept(Stream stream, std::span<const Matrix> matrices, const KeptGrid& grid) {
  const int rows = static_cast<int>(matrices[0].rows);
  const int cols = static_cast<int>(matrices[0].cols);
  const int stride = weight_stride(cols);
  const std::size_t matrix_bytes = static_cast<std::size_t>(rows) * stride;
  const std::size_t cell_bytes = static_cast<std::size_t>(grid.rows) * grid.cols * (grid.powers_of_two ? 1 : 4);
  DeviceMatrix out{
      Buffer<std::uint8_t>(matrix_bytes * matrices.size()), Buffer<std::uint8_t>(cell_bytes * matrices.size()), {}};
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    std::vector<std::uint8_t> codes(matrix_bytes, 0);
    for (int r = 0; r < rows; ++r) {
      std::memcpy(codes.data() + static_cast<std::size_t>(r) * stride,
                  matrices[i].data + static_cast<std::size_t>(r) * cols, cols);
    }
    out.data.upload(stream, codes, i * matrix_bytes);
    out.scales.upload(stream, scale_cells(matrices[i], grid), i * cell_bytes);
  }
  out.view = {.format = grid.powers_of_two ? WeightFormat::e4m3_e8m0 : WeightFormat::e4m3_f32,
              .data = out.data.data(),
              .rows = rows,
              .cols = cols,
              .stride = stride,
              .matrix_stride = static_cast<std::int64_t>(matrix_bytes),
              .scales = out.scales.data(),
              .block_rows = grid.block_rows,
              .column_shift = grid.column_shift,
              .scale_stride = grid.cols,
              .scale_matrix_stride = static_cast<std::int64_t>(grid.rows) * grid.cols};
  return out;
}

/// A stack of bf16 matrices of one shape, filled one by one.
DeviceMatrix bf16_stack(std::size_t count, int rows, int cols) {
  const int stride = weight_stride(cols);
  const std::size_t elements = static_cast<std::size_t>(rows) * stride;
  DeviceMatrix out{Buffer<std::uint8_t>(elements * 2 * count), {}, {}};
  out.view = {.format = WeightFormat::bf16,
              .data = out.data.data(),
              .rows = rows,
              .cols = cols,
              .stride = stride,
              .matrix_stride = static_cast<std::int64_t>(elements)};
  return out;
}

void fill_stack(Stream stream, const DeviceMatrix& stack, std::size_t i, const std::vector<std::uint16_t>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  upload_bytes(stream, stack.data.data() + i * bytes.size(), bytes.data(), bytes.size());
}

}  // namespace

DeviceMatrix upload_matrices(Stream stream, std::span<const Matrix> matrices) {
  const auto grid = kept_grid(matrices[0]);
  const bool kept =
      grid && std::all_of(matrices.begin(), matrices.end(), [&](const Matrix& m) { return kept_grid(m) == grid; });
  return kept ? upload_kept(stream, matrices, *grid) : upload_decoded(stream, matrices);
}

DeviceMatrix upload_decoded(Stream stream, std::span<const Matrix> matrices) {
  DeviceMatrix out =
      bf16_stack(matrices.size(), static_cast<int>(matrices[0].rows), static_cast<int>(matrices[0].cols));
  for (std::size_t i = 0; i < matrices.size(); ++i) fill_stack(stream, out, i, bf16_rows(matrices[i], out.view.stride));
  return out;
}

DeviceMatrix upload_matrix(Stream stream, const Matrix& matrix) { return upload_matrices(stream, {&matrix, 1}); }

DeviceMatrix upload_transposed_pieces(Stream stream, const Matrix& matrix, int heads, int size, int count) {
  const int rank = static_cast<int>(matrix.cols);
  DeviceMatrix out = bf16_stack(heads, rank, count);
  std::vector<float> row(rank);
  for (int h = 0; h < heads; ++h) {
    std::vector<std::uint16_t> piece(static_cast<std::size_t>(rank) * out.view.stride, 0);
    for (int i = 0; i < count; ++i) {
      decode_row(matrix, static_cast<std::size_t>(h) * size + i, 0, rank, row.data());
      for (int c = 0; c < rank; ++c) piece[static_cast<std::size_t>(c) * out.view.stride + i] = f32_to_bf16(row[c]);
    }
    fill_stack(stream, out, h, piece);
  }
  return out;
}

Buffer<float> upload_f32(Stream stream, const Matrix& matrix) {
  const int stride = row_stride(static_cast<int>(matrix.cols));
  std::vector<float> values(matrix.rows * stride, 0.0f);
  for (std::size_t r = 0; r < matrix.rows; ++r) decode_row(matrix, r, 0, matrix.cols, values.data() + r * stride);
  return Buffer<float>(stream, values);
}

Buffer<__nv_bfloat16> upload_bf16_rows(Stream stream, const Matrix& matrix) {
  const auto values = bf16_rows(matrix, row_stride(static_cast<int>(matrix.cols)));
  Buffer<__nv_bfloat16> out(values.size());
  upload_bytes(stream, out.data(), values.data(), values.size() * 2);
  return out;
}

Buffer<float> upload_vector(Stream stream, const Vector& values) {
  std::vector<float> narrow(values.size());
  std::transform(values.begin(), values.end(), narrow.begin(), [](double v) { return static_cast<float>(v); });
  return Buffer<float>(stream, narrow);
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
