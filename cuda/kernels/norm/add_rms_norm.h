#pragma once

#include <cuda_bf16.h>

#include "cuda/kernels/stream.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// sum = x + residual, y = sum / rms(sum) · w. The norm reads the sum as it is stored.
struct AddRmsNorm {
  int rows = 0;
  int width = 0;                            ///< H
  const __nv_bfloat16* x = nullptr;         ///< [T, H]
  const __nv_bfloat16* residual = nullptr;  ///< [T, H]; nullptr: sum is x itself and is not written
  const float* weight = nullptr;            ///< [H]
  float eps = 0;
  __nv_bfloat16* sum = nullptr;  ///< [T, H]
  __nv_bfloat16* y = nullptr;    ///< [T, H]
};

void add_rms_norm(Stream stream, const AddRmsNorm& p);

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
