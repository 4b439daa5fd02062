#include "reference/linear/linear.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "reference/linear/kernel.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

using kernel::ScaleStorage;
using kernel::Storage;

Storage storage_of(const Matrix& w) {
  switch (w.dtype) {
    case Dtype::f32:
      return Storage::f32;
    case Dtype::f64:
      return Storage::f64;
    case Dtype::bf16:
      return Storage::bf16;
    case Dtype::f16:
      return Storage::f16;
    case Dtype::f8_e4m3:
      return Storage::e4m3;
    case Dtype::f8_e5m2:
      return Storage::e5m2;
    default:
      throw input_error(fmt::format("tensor {} holds {}; a head computes with BF16, F16, F32, F64, F8_E4M3 and F8_E5M2",
                                    w.name, safetensors_name(w.dtype)));
  }
}

ScaleStorage scale_storage_of(const Matrix& w) {
  if (w.scales.data == nullptr) return ScaleStorage::none;
  switch (w.scales.dtype) {
    case Dtype::f32:
      return ScaleStorage::f32;
    case Dtype::bf16:
      return ScaleStorage::bf16;
    case Dtype::f16:
      return ScaleStorage::f16;
    case Dtype::f8_e8m0:
      return ScaleStorage::e8m0;
    default:
      throw input_error(fmt::format("the scales of tensor {} hold {}; F32, BF16, F16 or F8_E8M0 were expected", w.name,
                                    safetensors_name(w.scales.dtype)));
  }
}

kernel::Weights weights_of(const Matrix& w) {
  kernel::Weights out;
  out.storage = storage_of(w);
  out.data = reinterpret_cast<const unsigned char*>(w.data);
  out.row_bytes = w.cols * bits_of(w.dtype) / 8;
  out.scale_storage = scale_storage_of(w);
  out.scales = reinterpret_cast<const unsigned char*>(w.scales.data);
  out.scale_stride = w.scales.stride;
  out.block_rows = std::max<std::size_t>(w.scales.block_rows, 1);
  out.block_cols = std::max<std::size_t>(w.scales.block_cols, 1);
  out.first_row = w.scales.first_row;
  return out;
}

template <class S>
void run(const kernel::Product<S>& product) {
  if constexpr (std::is_same_v<S, float>) {
    kernel::chosen().product_f32(product);
  } else {
    kernel::chosen().product_f64(product);
  }
}

/// Where decoded weights wait for use, one a thread.
template <class S>
S* scratch() {
  alignas(kernel::kLaneBytes) thread_local std::array<S, kernel::kScratchBytes / sizeof(S)> block;
  return block.data();
}

/// x with its columns padded to whole lanes by zeros, where they are not.
template <class S>
class PaddedRows {
 public:
  PaddedRows(const S* x, std::size_t stride, std::size_t count, std::size_t columns) : data_(x), stride_(stride) {
    constexpr std::size_t lanes = kernel::kLaneBytes / sizeof(S);
    if (columns % lanes == 0) return;
    stride_ = (columns + lanes - 1) / lanes * lanes;
    copy_ = Rows<S>::Zero(static_cast<Eigen::Index>(count), static_cast<Eigen::Index>(stride_));
    for (std::size_t t = 0; t < count; ++t) std::copy_n(x + t * stride, columns, copy_.data() + t * stride_);
    data_ = copy_.data();
  }
  const S* data() const { return data_; }
  std::size_t stride() const { return stride_; }

 private:
  Rows<S> copy_;
  const S* data_;
  std::size_t stride_;
};

template <class S>
kernel::Product<S> product_of(const PaddedRows<S>& x, std::size_t tokens, const kernel::Weights& w, std::size_t columns,
                              std::size_t rows, S* out, std::size_t out_stride) {
  kernel::Product<S> product;
  product.x = x.data();
  product.x_stride = x.stride();
  product.tokens = tokens;
  product.weights = w;
  product.columns = columns;
  product.row_end = rows;
  product.out = out;
  product.out_stride = out_stride;
  return product;
}

template <class S>
void check_fits(const Rows<S>& x, const Matrix& w) {
  if (static_cast<std::size_t>(x.cols()) == w.cols) return;
  throw input_error(
      fmt::format("tensor {} is [{}, {}], but its input has {} columns", w.name, w.rows, w.cols, x.cols()));
}

}  // namespace

template <class S>
Rows<S> linear(const Rows<S>& x, const Matrix& w, ThreadPool& pool) {
  check_fits(x, w);
  Rows<S> out(x.rows(), static_cast<Eigen::Index>(w.rows));
  if (out.size() == 0) return out;
  if (w.cols == 0) return out.setZero();
  const auto tokens = static_cast<std::size_t>(x.rows());
  const PaddedRows<S> padded(x.data(), w.cols, tokens, w.cols);
  const auto whole = product_of(padded, tokens, weights_of(w), w.cols, w.rows, out.data(), w.rows);
  // Ranges are a multiple of every kernel's row tile; enough of them that the threads end together.
  constexpr std::size_t tile = 12;
  const std::size_t parts = 4 * pool.threads();
  const std::size_t grain = std::max<std::size_t>(1, (w.rows + parts * tile - 1) / (parts * tile)) * tile;
  pool.for_ranges(w.rows, grain, tokens * w.cols, [&](std::size_t begin, std::size_t end) {
    auto part = whole;
    part.row_begin = begin;
    part.row_end = end;
    part.scratch = scratch<S>();
    run(part);
  });
  return out;
}

template <class S>
Rows<S> linear_in_order(const Rows<S>& x, const Matrix& w, ThreadPool& pool) {
  check_fits(x, w);
  Rows<S> out(x.rows(), static_cast<Eigen::Index>(w.rows));
  if (w.cols == 0) return out.setZero();
  constexpr Eigen::Index kTogether = 4;  // tokens whose sums hide each other's latency
  const auto tokens = static_cast<std::size_t>(x.rows());
  pool.for_ranges(w.rows, 16, tokens * w.cols, [&](std::size_t begin, std::size_t end) {
    std::vector<S> row(w.cols);
    for (std::size_t r = begin; r < end; ++r) {
      decode_row(w, r, 0, w.cols, row.data());
      for (Eigen::Index t = 0; t < x.rows(); t += kTogether) {
        std::array<S, kTogether> sums{};
        std::array<const S*, kTogether> from{};  // behind the last token: the last again
        for (Eigen::Index k = 0; k < kTogether; ++k) from[k] = &x(std::min(t + k, x.rows() - 1), 0);
        for (std::size_t c = 0; c < w.cols; ++c) {
          for (Eigen::Index k = 0; k < kTogether; ++k) sums[k] += from[k][c] * row[c];
        }
        for (Eigen::Index k = 0; k < std::min(kTogether, x.rows() - t); ++k) out(t + k, r) = sums[k];
      }
    }
  });
  return out;
}

template <class S>
void linear_into(const S* x, std::size_t x_stride, std::size_t count, const Matrix& w, S* out, std::size_t out_stride) {
  if (count == 0 || w.rows == 0) return;
  const PaddedRows<S> padded(x, x_stride, count, w.cols);
  auto product = product_of(padded, count, weights_of(w), w.cols, w.rows, out, out_stride);
  product.scratch = scratch<S>();
  run(product);
}

template <class S>
void product_into(const S* x, std::size_t x_stride, std::size_t a, const S* y, std::size_t y_stride, std::size_t b,
                  std::size_t d, S* out, std::size_t out_stride) {
  if (a == 0 || b == 0) return;
  const PaddedRows<S> padded(x, x_stride, a, d);
  kernel::Weights weights;
  weights.data = reinterpret_cast<const unsigned char*>(y);
  weights.row_bytes = y_stride * sizeof(S);
  auto product = product_of(padded, a, weights, d, b, out, out_stride);
  product.scratch = scratch<S>();
  run(product);
}

template <class S>
void decode_row(const Matrix& w, std::size_t row, std::size_t first, std::size_t count, S* out) {
  if constexpr (std::is_same_v<S, float>) {
    kernel::chosen().decode_f32(weights_of(w), row, first, count, out);
  } else {
    kernel::chosen().decode_f64(weights_of(w), row, first, count, out);
  }
}

template <class S>
Rows<S> decode_all(const Matrix& w) {
  Rows<S> out(static_cast<Eigen::Index>(w.rows), static_cast<Eigen::Index>(w.cols));
  for (std::size_t r = 0; r < w.rows; ++r) decode_row<S>(w, r, 0, w.cols, out.data() + r * w.cols);
  return out;
}

std::string_view linear_kernels() { return kernel::chosen().name; }

template Rows<float> linear(const Rows<float>&, const Matrix&, ThreadPool&);
template Rows<double> linear(const Rows<double>&, const Matrix&, ThreadPool&);
template Rows<float> linear_in_order(const Rows<float>&, const Matrix&, ThreadPool&);
template Rows<double> linear_in_order(const Rows<double>&, const Matrix&, ThreadPool&);
template void linear_into(const float*, std::size_t, std::size_t, const Matrix&, float*, std::size_t);
template void linear_into(const double*, std::size_t, std::size_t, const Matrix&, double*, std::size_t);
template void product_into(const float*, std::size_t, std::size_t, const float*, std::size_t, std::size_t, std::size_t,
                           float*, std::size_t);
template void product_into(const double*, std::size_t, std::size_t, const double*, std::size_t, std::size_t,
                           std::size_t, double*, std::size_t);
template void decode_row(const Matrix&, std::size_t, std::size_t, std::size_t, float*);
template void decode_row(const Matrix&, std::size_t, std::size_t, std::size_t, double*);
template Rows<float> decode_all(const Matrix&);
template Rows<double> decode_all(const Matrix&);

}  // namespace mtpcheck
