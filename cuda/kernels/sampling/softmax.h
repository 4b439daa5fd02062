#pragma once

#include "cuda/kernels/stream.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// probabilities = softmax(logits / temperature), a row each.
struct Softmax {
  int rows = 0;
  int width = 0;                   ///< V
  const float* logits = nullptr;   ///< [T, row_stride(V)]
  float temperature = 1;           ///< > 0
  float* probabilities = nullptr;  ///< [T, V], rows back to back
};

void softmax(Stream stream, const Softmax& p);

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
