#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "cuda/kernels/norm/rope_table.h"
#include "cuda/kernels/stream.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// The rotated part of every head's query, written behind the place of its absorbed part.
struct QueryRope {
  int tokens = 0;
  int heads = 0;                            ///< N
  int nope = 0;                             ///< n
  int kv_rank = 0;                          ///< Lkv
  const __nv_bfloat16* q = nullptr;         ///< [T, N, n + r]
  const std::int32_t* positions = nullptr;  ///< [T]
  RopeTable rope;
  __nv_bfloat16* query = nullptr;  ///< [T, N, LatentLayout::stride]: all but entries 0 … Lkv−1 are written
};

void query_rope(Stream stream, const QueryRope& p);

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
