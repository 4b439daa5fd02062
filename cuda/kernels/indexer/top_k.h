#pragma once

#include <cstdint>

#include "cuda/kernels/stream.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// The k largest scores of each row, exactly; among equals the lowest index. −0 equals +0, NaN counts as the largest.
struct TopK {
  int rows = 0;
  int k = 0;                      ///< entries of a row of `indices`
  int max_keys = 0;               ///< the largest of key_counts
  const float* scores = nullptr;  ///< [rows, score_stride]; not read in rows with at most k keys
  int score_stride = 0;
  const std::int32_t* key_counts = nullptr;  ///< [rows] keys of each row
  std::int32_t* indices = nullptr;           ///< [rows, k] descending, −1 as padding
};

void top_k(Stream stream, const TopK& p);

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
