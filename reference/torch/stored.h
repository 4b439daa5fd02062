#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/model/weights.h"
#include "reference/tensor/dtype.h"
#include "reference/tensor/tensor.h"

/// Between the project's tensors and ATen's.
namespace mtpcheck::torch_head {

/// A size as LibTorch takes it.
inline std::int64_t signed_size(std::size_t size) { return static_cast<std::int64_t>(size); }

/// The type in which a module computes: float64 for float64, else float32.
at::ScalarType wide(at::ScalarType type);

/// ATen's word for a dtype; throws Error{input} for one that it cannot compute with.
at::ScalarType scalar_type(Dtype dtype);

/// The inverse, for recorded stages.
Dtype dtype_of(at::ScalarType type);

/// Bytes as a tensor, where they lie if their alignment allows it, else as a copy.
at::Tensor stored(const std::byte* data, Dtype dtype, const std::vector<std::int64_t>& shape);

/// The matrix with its scales applied, [rows, cols] in `type` (one rounding where `type` cannot hold the product).
at::Tensor decoded(const Matrix& matrix, at::ScalarType type);

/// x Wᵀ, [T, rows] in x's type. A weight stored in floating point is converted to that type first, as a loaded
/// parameter would be; a quantised one is decoded and multiplied in the wide type.
at::Tensor linear(const at::Tensor& x, const Matrix& weight);

/// A small vector in `type`.
at::Tensor vector_of(const Vector& values, at::ScalarType type);

/// Rows `ids` of an embedding table, in `type`.
at::Tensor embedding(const Matrix& table, const at::Tensor& ids, at::ScalarType type);

}  // namespace mtpcheck::torch_head
