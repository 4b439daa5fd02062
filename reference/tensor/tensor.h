#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reference/tensor/dtype.h"

namespace mtpcheck {

/// Row-major extents; a scalar has none. Elements are counted with `elements_of`.
using Shape = std::vector<std::size_t>;

/// Product of the extents; 1 for a scalar. The caller has made sure that it does not overflow (headers are validated).
std::size_t elements_of(std::span<const std::size_t> shape);

/// "[16, 4, 24]"
std::string to_string(std::span<const std::size_t> shape);

/// A tensor's bytes where they lie: in a mapped file, or in a buffer of the caller's. Copies nothing, owns nothing.
/// Bytes are little-endian, row-major, and need not be aligned to the element size.
struct TensorView {
  std::string name;
  Dtype dtype = Dtype::f32;
  Shape shape;
  std::span<const std::byte> bytes;  ///< empty where only headers were read
  std::string file;                  ///< name of the file it lies in; empty for a buffer
  std::uint64_t offset = 0;          ///< of the first byte in `file`

  std::size_t elements() const { return elements_of(shape); }
};

/// A tensor that owns its bytes.
struct Tensor {
  Dtype dtype = Dtype::f32;
  Shape shape;
  std::vector<std::byte> bytes;

  std::size_t elements() const { return elements_of(shape); }
  TensorView view(std::string name = {}) const { return {std::move(name), dtype, shape, bytes, {}, 0}; }
};

/// A zero-filled tensor.
Tensor make_tensor(Dtype dtype, Shape shape);

/// Element type of a C++ type: float, double, std::int32_t, std::int64_t, std::uint8_t.
template <class T>
constexpr Dtype dtype_of();
template <>
constexpr Dtype dtype_of<float>() {
  return Dtype::f32;
}
template <>
constexpr Dtype dtype_of<double>() {
  return Dtype::f64;
}
template <>
constexpr Dtype dtype_of<std::int32_t>() {
  return Dtype::i32;
}
template <>
constexpr Dtype dtype_of<std::int64_t>() {
  return Dtype::i64;
}
template <>
constexpr Dtype dtype_of<std::uint8_t>() {
  return Dtype::u8;
}

/// A tensor with a copy of `values`, which must be elements_of(shape) many.
template <class T>
Tensor tensor_of(Shape shape, std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {dtype_of<T>(), std::move(shape), {bytes.begin(), bytes.end()}};
}

/// Every element as float64, exactly (BF16, FP16 and FP8 are subsets of it; 64-bit integers round beyond 2^53).
/// Sub-byte types throw Error{input}.
std::vector<double> to_f64(const TensorView& tensor);

/// Every element as float32; float64 rounds to nearest even.
std::vector<float> to_f32(const TensorView& tensor);

/// Elements of an integer tensor (any width, or bool); throws Error{input} for another dtype.
std::vector<std::int64_t> to_i64(const TensorView& tensor);

}  // namespace mtpcheck
