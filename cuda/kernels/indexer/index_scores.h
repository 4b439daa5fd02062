#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "cuda/kernels/stream.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// score[t, j] = Σ_h weight[t, h] · relu(query[t, h] · key[j]) for the keys j that token t may see.
struct IndexScores {
  int tokens = 0;
  int heads = 0;                             ///< h
  int dims = 0;                              ///< d, at most 256
  int max_keys = 0;                          ///< the largest of key_counts; the grid's extent
  const __nv_bfloat16* queries = nullptr;    ///< [T, h, index_stride(d)]
  const float* head_weights = nullptr;       ///< [T, h]
  const std::int32_t* key_bases = nullptr;   ///< [T] cache row of key 0 of the token's sequence
  const std::int32_t* key_counts = nullptr;  ///< [T] keys the token may see: its own is the last
  const __nv_bfloat16* cache = nullptr;      ///< [rows, index_stride(d)], or nullptr with fp8
  const std::uint8_t* cache_fp8 = nullptr;   ///< [rows, index_stride(d)] E4M3
  const float* cache_scales = nullptr;       ///< [rows] with fp8
  bool write_masked = false;                 ///< write −∞ for keys from key_counts[t] to max_keys
  float* scores = nullptr;                   ///< [T, score_stride]
  int score_stride = 0;                      ///< at least max_keys
};

/// Throws mtpcheck::Error for dims above 256.
void index_scores(Stream stream, const IndexScores& p);

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
