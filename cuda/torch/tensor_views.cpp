#include "cuda/torch/tensor_views.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <climits>

#include "cuda/kernels/numeric/rows.h"
#include "cuda/runtime/memory.h"
#include "reference/tensor/error.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {
namespace {

std::string shape_text(at::IntArrayRef shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

void check_tensor(const at::Tensor& tensor, at::ScalarType type, at::IntArrayRef shape, const std::string& name) {
  if (!tensor.defined()) throw input_error(fmt::format("{} is no tensor", name));
  check_device(tensor, name);
  if (tensor.scalar_type() != type) {
    throw input_error(
        fmt::format("{} is {}, expected {}", name, at::toString(tensor.scalar_type()), at::toString(type)));
  }
  if (tensor.sizes() != shape) {
    throw input_error(fmt::format("{} is {}, expected {}", name, shape_text(tensor.sizes()), shape_text(shape)));
  }
}

void check_start(const at::Tensor& tensor, const std::string& name) {
  if (reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % 16 == 0) return;
  throw input_error(fmt::format("{} starts at {}, expected a multiple of 16 bytes: clone() it", name,
                                fmt::ptr(tensor.const_data_ptr())));
}

/// Address of rows [T, width].
const void* rows_view(const at::Tensor& rows, at::ScalarType type, std::int64_t tokens, std::int64_t width,
                      const std::string& name) {
  check_tensor(rows, type, {tokens, width}, name);
  const std::int64_t stride = row_stride(static_cast<int>(width));
  const bool apart = tokens <= 1 || rows.stride(0) == stride;
  if ((width > 1 && rows.stride(1) != 1) || !apart) {
    throw input_error(fmt::format("{} has strides {}, expected [{}, 1]{}", name, shape_text(rows.strides()), stride,
                                  stride == width ? ": make it contiguous()" : ""));
  }
  check_start(rows, name);
  return rows.const_data_ptr();
}

/// The columns between a row's end and the next multiple of 32 must be there, and zero.
void check_padding(const at::Tensor& data, const std::string& name) {
  const std::int64_t cols = data.size(-1);
  const std::int64_t padded = weight_stride(static_cast<int>(cols));
  if (padded == cols) return;
  auto shape = data.sizes().vec();
  shape.back() = padded - cols;
  const std::int64_t first = data.storage_offset() + cols;
  std::int64_t last = first + padded - cols;
  for (std::int64_t d = 0; d + 1 < data.dim(); ++d) last += (data.size(d) - 1) * data.stride(d);
  const bool there =
      data.stride(-2) >= padded && last * data.element_size() <= static_cast<std::int64_t>(data.storage().nbytes());
  if (there) {
    const auto bytes = data.as_strided(shape, data.strides(), first).contiguous().view(at::kByte);
    if (!bytes.any().item<bool>()) return;
  }
  throw input_error(fmt::format("{} has rows of {}, which is no multiple of 32: {} zeros must follow each of them",
                                name, cols, padded - cols));
}

void set_scales(WeightView& view, const TensorMatrix& matrix, const std::string& name) {
  const at::Tensor& scales = matrix.scales;
  const auto type = scales.defined() ? scales.scalar_type() : at::kFloat;
  if (type != at::kFloat && type != at::kFloat8_e8m0fnu) {
    throw input_error(fmt::format("{} is {}, expected float32 or float8_e8m0fnu", name, at::toString(type)));
  }
  const bool whole_rows = matrix.block_cols >= view.cols;
  if (matrix.block_rows < 1 || (!whole_rows && (matrix.block_cols < 32 ||
                                                !std::has_single_bit(static_cast<std::uint64_t>(matrix.block_cols))))) {
    throw input_error(fmt::format("{} has blocks of {} x {}, expected a power of two from 32 on of columns, or all",
                                  name, matrix.block_rows, matrix.block_cols));
  }
  auto shape = matrix.data.sizes().vec();
  shape[shape.size() - 2] = (view.rows + matrix.block_rows - 1) / matrix.block_rows;
  shape.back() = whole_rows ? 1 : (view.cols + matrix.block_cols - 1) / matrix.block_cols;
  check_tensor(scales, type, shape, name);
  if (shape.back() > 1 && scales.stride(-1) != 1) {
    throw input_error(
        fmt::format("{} has strides {}, expected neighbouring columns", name, shape_text(scales.strides())));
  }
  view.format = type == at::kFloat ? WeightFormat::e4m3_f32 : WeightFormat::e4m3_e8m0;
  view.scales = scales.const_data_ptr();
  view.block_rows = static_cast<int>(std::min<std::int64_t>(matrix.block_rows, INT_MAX));
  view.column_shift = whole_rows ? 31 : std::countr_zero(static_cast<std::uint64_t>(matrix.block_cols));
  view.scale_stride = static_cast<int>(scales.stride(-2));
  view.scale_matrix_stride = scales.dim() == 3 ? scales.stride(0) : 0;
}

}  // namespace

at::Device backend_device() {
  const int index = device_index();
  return index < 0 ? at::Device(at::kCPU) : at::Device(at::kCUDA, static_cast<at::DeviceIndex>(index));
}

void check_device(const at::Tensor& tensor, const std::string& name) {
  if (tensor.device() == backend_device()) return;
  throw input_error(fmt::format("{} is on {}, expected {}", name, tensor.device().str(), backend_device().str()));
}

WeightView matrix_view(const TensorMatrix& matrix, const std::string& name) {
  const at::Tensor& data = matrix.data;
  if (!data.defined() || data.dim() < 2 || data.dim() > 3) {
    throw input_error(fmt::format("{} is {}, expected a matrix or a stack of matrices", name,
                                  data.defined() ? shape_text(data.sizes()) : "no tensor"));
  }
  const bool quantised = data.scalar_type() == at::kFloat8_e4m3fn;
  check_tensor(data, quantised ? at::kFloat8_e4m3fn : at::kBFloat16, data.sizes(), name);
  if (!quantised && matrix.scales.defined()) throw input_error(fmt::format("{} is bf16 and has scales", name));
  check_start(data, name);
  WeightView view{.data = data.const_data_ptr(),
                  .rows = static_cast<int>(data.size(-2)),
                  .cols = static_cast<int>(data.size(-1)),
                  .stride = static_cast<int>(data.stride(-2)),
                  .matrix_stride = data.dim() == 3 ? data.stride(0) : 0};
  const bool starts = view.stride * data.element_size() % 16 == 0 && view.matrix_stride * data.element_size() % 16 == 0;
  if ((view.cols > 1 && data.stride(-1) != 1) || view.stride < view.cols || data.stride(-2) > INT_MAX || !starts) {
    throw input_error(fmt::format("{} has strides {}, expected neighbouring columns, and rows at multiples of 16 bytes",
                                  name, shape_text(data.strides())));
  }
  check_padding(data, name);
  if (quantised) set_scales(view, matrix, name + "'s scales");
  return view;
}

const __nv_bfloat16* bf16_rows_view(const at::Tensor& rows, std::int64_t tokens, std::int64_t width,
                                    const std::string& name) {
  return static_cast<const __nv_bfloat16*>(rows_view(rows, at::kBFloat16, tokens, width, name));
}

const float* f32_rows_view(const at::Tensor& rows, std::int64_t tokens, std::int64_t width, const std::string& name) {
  return static_cast<const float*>(rows_view(rows, at::kFloat, tokens, width, name));
}

const std::int32_t* index_view(const at::Tensor& indices, std::int64_t tokens, const std::string& name) {
  check_tensor(indices, at::kInt, {tokens}, name);
  if (tokens > 1 && indices.stride(0) != 1) throw input_error(fmt::format("{} is not contiguous", name));
  return static_cast<const std::int32_t*>(indices.const_data_ptr());
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
