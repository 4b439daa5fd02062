#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "cuda/kernels/norm/rope_table.h"
#include "cuda/kernels/stream.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// The indexer's queries after RoPE, and the weights of their heads.
struct IndexQuery {
  int tokens = 0;
  int heads = 0;                            ///< h
  int dims = 0;                             ///< d
  __nv_bfloat16* q = nullptr;               ///< [T, h, d] wq_b's output; rotated in place
  const float* raw_weights = nullptr;       ///< [T, h] weights_proj's output
  float weight_scale = 1;                   ///< d^−½ · h^−½
  const std::int32_t* positions = nullptr;  ///< [T]
  RopeTable rope;
  bool fp8 = false;                  ///< quantise each query to E4M3 with a power-of-two scale
  __nv_bfloat16* queries = nullptr;  ///< [T, h, index_stride(d)]; E4M3 values as bf16 with fp8
  float* weights = nullptr;          ///< [T, h] raw_weights · weight_scale
  float* head_weights = nullptr;     ///< [T, h] times the query's scale
};

void index_query(Stream stream, const IndexQuery& p);

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
