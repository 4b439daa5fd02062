#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "cuda/kernels/linear/weight_view.h"
#include "cuda/kernels/stream.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// One matrix of a linear layer: y = x Wᵀ, for each of `matrices` stacked matrices with its own piece of x and y.
/// Exactly one of y and y_f32 is given.
struct LinearSegment {
  WeightView weight;
  int matrices = 1;
  int x_offset = 0;            ///< of the piece of matrix 0 in x's rows
  int x_step = 0;              ///< entries from a matrix' piece of x to the next
  __nv_bfloat16* y = nullptr;  ///< [T, y_stride]
  float* y_f32 = nullptr;      ///< [T, y_stride]
  std::int64_t y_stride = 0;
  int y_step = 0;  ///< entries from a matrix' piece of y to the next
};

constexpr int kMaxSegments = 6;

/// Several matrices that read the same x, in one launch.
struct Linear {
  int tokens = 0;
  const __nv_bfloat16* x = nullptr;  ///< [T, x_stride]
  std::int64_t x_stride = 0;
  int segments = 0;
  LinearSegment segment[kMaxSegments];
};

/// Tokens up to which weights are streamed (linear_streamed); above, linear_tiled shares each weight among more tokens.
constexpr int kStreamedTokens = 32;

/// At most kStreamedTokens tokens, every format.
void linear_streamed(Stream stream, const Linear& p);

/// Any number of tokens, every format: 64 × 128 tiles through shared memory.
void linear_tiled(Stream stream, const Linear& p);

/// The one of the two that suits the number of tokens.
void linear(Stream stream, const Linear& p);

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
