#include "reference/torch/stored.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "reference/tensor/error.h"

namespace mtpcheck::torch_head {
namespace {}  // namespace

at::ScalarType wide(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

at::ScalarType scalar_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64:
      return at::kDouble;
    case Dtype::f32:
      return at::kFloat;
    case Dtype::f16:
      return at::kHalf;
    case Dtype::bf16:
      return at::kBFloat16;
    case Dtype::f8_e4m3:
      return at::kFloat8_e4m3fn;
    case Dtype::f8_e5m2:
      return at::kFloat8_e5m2;
    case Dtype::f8_e8m0:
      return at::kFloat8_e8m0fnu;
    default:
      throw input_error(fmt::format("the torch head cannot compute with {} weights", safetensors_name(dtype)));
  }
}

Dtype dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return Dtype::f64;
    case at::kHalf:
      return Dtype::f16;
    case at::kBFloat16:
      return Dtype::bf16;
    case at::kInt:
      return Dtype::i32;
    default:
      return Dtype::f32;
  }
}

at::Tensor stored(const std::byte* data, Dtype dtype, const std::vector<std::int64_t>& shape) {
  const auto type = scalar_type(dtype);
  const auto size = signed_size(c10::elementSize(type));
  // from_blob wants a pointer to mutable bytes; nothing here writes through it.
  auto* const bytes = const_cast<std::byte*>(data);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  if (reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(size) == 0) {
    return at::from_blob(bytes, shape, at::TensorOptions(type));
  }
  std::int64_t elements = 1;
  for (const auto extent : shape) elements *= extent;
  return at::from_blob(bytes, {elements * size}, at::TensorOptions(at::kByte)).clone().view(type).view(shape);
}

at::Tensor decoded(const Matrix& matrix, at::ScalarType type) {
  const auto values = stored(matrix.data, matrix.dtype, {signed_size(matrix.rows), signed_size(matrix.cols)});
  const auto& scales = matrix.scales;
  if (scales.data == nullptr) return values.to(type);
  const auto rows = at::arange(signed_size(matrix.rows)).add(signed_size(scales.first_row));
  const auto cell_row = rows.floor_divide(signed_size(scales.block_rows));
  const auto cell_col = at::arange(signed_size(matrix.cols)).floor_divide(signed_size(scales.block_cols));
  const auto grid_rows = signed_size((scales.first_row + matrix.rows - 1) / scales.block_rows + 1);
  const auto grid_cols = signed_size((matrix.cols - 1) / scales.block_cols + 1);
  const auto stride = signed_size(scales.stride);
  const auto grid = stored(scales.data, scales.dtype, {(grid_rows - 1) * stride + grid_cols})
                        .as_strided({grid_rows, grid_cols}, {stride, 1})
                        .to(wide(type));
  const auto scale = grid.index_select(0, cell_row).index_select(1, cell_col);
  return (values.to(wide(type)) * scale).to(type);
}

at::Tensor linear(const at::Tensor& x, const Matrix& weight) {
  const auto type = x.scalar_type();
  if (weight.scales.data == nullptr) return at::linear(x, decoded(weight, type));
  return at::linear(x.to(wide(type)), decoded(weight, wide(type))).to(type);
}

at::Tensor vector_of(const Vector& values, at::ScalarType type) {
  auto result = at::empty({signed_size(values.size())}, at::TensorOptions(at::kDouble));
  std::ranges::copy(values, result.mutable_data_ptr<double>());
  return result.to(type);
}

at::Tensor embedding(const Matrix& table, const at::Tensor& ids, at::ScalarType type) {
  if (table.scales.data != nullptr) return decoded(table, type).index_select(0, ids);
  return stored(table.data, table.dtype, {signed_size(table.rows), signed_size(table.cols)})
      .index_select(0, ids)
      .to(type);
}

}  // namespace mtpcheck::torch_head
