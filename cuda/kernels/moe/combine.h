#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "cuda/kernels/stream.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// The MLP's output, the residual behind it and the final norm.
///
///   experts_out = Σ_k weight[t, k] · y[place of (t, k)], in ascending k
///   mlp_out     = experts_out + shared
///   residual2   = mlp_out + residual           normed = residual2 / rms(residual2) · w
/// Each is rounded to bf16 where it is named.
struct CombineExperts {
  int tokens = 0;
  int top_k = 0;                            ///< K; 0: no routed experts
  int width = 0;                            ///< H
  const float* y = nullptr;                 ///< [T·K, H]
  const std::int32_t* places = nullptr;     ///< [T·K]
  const float* weights = nullptr;           ///< [T, K]
  const float* shared = nullptr;            ///< [T, H]; nullptr: no shared expert
  const __nv_bfloat16* residual = nullptr;  ///< [T, H]
  const float* norm = nullptr;              ///< [H]
  float eps = 0;
  __nv_bfloat16* experts_out = nullptr;  ///< [T, H], or nullptr when nobody asks for it
  __nv_bfloat16* shared_out = nullptr;   ///< likewise
  __nv_bfloat16* mlp_out = nullptr;      ///< likewise
  __nv_bfloat16* residual2 = nullptr;    ///< [T, H]
  __nv_bfloat16* normed = nullptr;       ///< [T, H]
};

void combine_experts(Stream stream, const CombineExperts& p);

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
