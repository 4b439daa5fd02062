#pragma once

#include <cstddef>
#include <string_view>

#include "reference/math/rows.h"
#include "reference/model/weights.h"
#include "reference/parallel/thread_pool.h"

namespace mtpcheck {

/// x Wᵀ. Weights are decoded block by block in use: exactly in float64, to the nearest float32 in float32 (a quantised
/// element is code · scale, rounded once).
///
/// x [T, cols] → [T, rows]
///
/// Each output depends on its own row of x and of W only, with one order of summation (kernel.h): same bits for any
/// number of tokens and threads. Throws Error{input} for a dtype that has no value, or where x does not fit.
template <class S>
Rows<S> linear(const Rows<S>& x, const Matrix& w, ThreadPool& pool);

/// The same with one running sum an output, column after column, as a matrix kernel that holds each output in a
/// register adds: of the usual orders the one that rounds most. For measuring what arithmetic in float32 costs; slow.
template <class S>
Rows<S> linear_in_order(const Rows<S>& x, const Matrix& w, ThreadPool& pool);

/// The same over `count` rows at `x`, `x_stride` elements apart, into `out`, `out_stride` apart. In the calling thread.
template <class S>
void linear_into(const S* x, std::size_t x_stride, std::size_t count, const Matrix& w, S* out, std::size_t out_stride);

/// x Yᵀ of two blocks of activations, [a, d] · [b, d]ᵀ → [a, b], by the same kernel; in the calling thread.
template <class S>
void product_into(const S* x, std::size_t x_stride, std::size_t a, const S* y, std::size_t y_stride, std::size_t b,
                  std::size_t d, S* out, std::size_t out_stride);

/// Row `row` of a weight matrix, decoded: `count` columns from `first` on.
template <class S>
void decode_row(const Matrix& w, std::size_t row, std::size_t first, std::size_t count, S* out);

/// The whole matrix, decoded: for small ones.
template <class S>
Rows<S> decode_all(const Matrix& w);

/// The instruction set in use: "baseline", "avx2", "avx512".
std::string_view linear_kernels();

}  // namespace mtpcheck
