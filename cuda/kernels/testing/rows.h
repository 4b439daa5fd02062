#pragma once

#include <cuda_bf16.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "cuda/kernels/numeric/rows.h"
#include "cuda/runtime/memory.h"

/// Inputs and outputs of kernel tests. The same tests run the emulated kernels and, in a program of their own, the
/// device's.
namespace mtpcheck::cuda::inline SIMT_BACKEND {

using Random = std::mt19937;

inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
inline double rounded_to_bf16(double x) {
  return static_cast<double>(to_float(__float2bfloat16(static_cast<float>(x))));
}

/// Rows of T with their values in float64. Entries between rows are NaN: a kernel that reads them shows it.
template <class T>
struct Rows {
  int rows = 0;
  int width = 0;
  std::vector<double> values;  // [rows, width]
  Buffer<T> device;            // [rows, row_stride(width)]

  double at(int row, int column) const { return values[static_cast<std::size_t>(row) * width + column]; }
};

inline __nv_bfloat16 element_of(double value, const __nv_bfloat16*) {
  return __float2bfloat16(static_cast<float>(value));
}
inline float element_of(double value, const float*) { return static_cast<float>(value); }
inline double value_of(__nv_bfloat16 x) { return static_cast<double>(to_float(x)); }
inline double value_of(float x) { return static_cast<double>(x); }

/// Rounds the given values to T and uploads them.
template <class T>
Rows<T> rows_of_values(int rows, int width, std::vector<double> values, int stride = 0) {
  if (stride == 0) stride = row_stride(width);
  std::vector<T> padded(static_cast<std::size_t>(rows) * stride,
                        element_of(std::numeric_limits<double>::quiet_NaN(), static_cast<T*>(nullptr)));
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < width; ++c) {
      double& value = values[static_cast<std::size_t>(r) * width + c];
      const T element = element_of(value, static_cast<T*>(nullptr));
      padded[static_cast<std::size_t>(r) * stride + c] = element;
      value = value_of(element);
    }
  }
  return {rows, width, std::move(values), Buffer<T>(nullptr, std::span<const T>(padded))};
}

/// Normal noise.
template <class T>
Rows<T> random_rows(Random& random, int rows, int width, double scale = 1.0, int stride = 0) {
  std::normal_distribution<double> normal(0.0, scale);
  std::vector<double> values(static_cast<std::size_t>(rows) * width);
  for (double& value : values) value = normal(random);
  return rows_of_values<T>(rows, width, std::move(values), stride);
}

/// What a kernel wrote into rows with the given stride, without the entries in between.
template <class T>
std::vector<double> read_rows(const Buffer<T>& buffer, int rows, int width, int stride = 0) {
  if (stride == 0) stride = row_stride(width);
  const std::vector<T> padded = buffer.download(nullptr, 0, static_cast<std::size_t>(rows) * stride);
  std::vector<double> values;
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < width; ++c) values.push_back(value_of(padded[static_cast<std::size_t>(r) * stride + c]));
  }
  return values;
}

template <class T>
Buffer<T> rows_for(int rows, int width) {
  return Buffer<T>(static_cast<std::size_t>(rows) * row_stride(width));
}

template <class T>
Buffer<T> buffer_of(const std::vector<T>& values) {
  return Buffer<T>(nullptr, std::span<const T>(values));
}

/// Between the ends, both included.
inline int draw(Random& random, int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
