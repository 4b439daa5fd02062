#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "cuda/kernels/norm/rope_table.h"
#include "cuda/kernels/stream.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// The indexer's key of each token: LayerNorm, RoPE on the last r entries, a row of the index-key cache.
struct IndexKey {
  int tokens = 0;
  int dims = 0;                              ///< d
  const __nv_bfloat16* projected = nullptr;  ///< [T, d] wk's output
  const float* norm_weight = nullptr;        ///< [d]
  const float* norm_bias = nullptr;          ///< [d]
  float eps = 0;
  const std::int32_t* positions = nullptr;  ///< [T]
  RopeTable rope;
  const std::int32_t* cache_rows = nullptr;  ///< [T] the cache row of each token
  __nv_bfloat16* cache = nullptr;            ///< [rows, index_stride(d)], or nullptr with fp8
  std::uint8_t* cache_fp8 = nullptr;         ///< [rows, index_stride(d)] E4M3 instead
  float* cache_scales = nullptr;             ///< [rows] with fp8: a power of two
  __nv_bfloat16* keys = nullptr;             ///< [T, d] the keys before any quantisation
};

void index_key(Stream stream, const IndexKey& p);

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
