#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "cuda/kernels/stream.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// y = x Wᵀ with weights and results in float32: the router, and a head whose lm_head is stored so.
struct LinearF32 {
  int tokens = 0;
  int rows = 0;                      ///< R
  int cols = 0;                      ///< C
  const __nv_bfloat16* x = nullptr;  ///< [T, C]
  const float* weight = nullptr;     ///< [R, row_stride(C)]
  float* y = nullptr;                ///< [T, R]
};

void linear_f32(Stream stream, const LinearF32& p);

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
