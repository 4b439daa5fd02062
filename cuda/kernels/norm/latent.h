#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "cuda/kernels/norm/rope_table.h"
#include "cuda/kernels/stream.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// The query latent, and one row of the key-value cache, from the two down-projections.
///
/// A cache row is [latent, zero-padded to 16 ‖ rotated key, zero-padded to 16 ‖ zeros up to a multiple of 32]: see
/// LatentLayout.
struct LatentNorms {
  int tokens = 0;
  int q_rank = 0;                       ///< Lq
  int kv_rank = 0;                      ///< Lkv
  const __nv_bfloat16* q_a = nullptr;   ///< [T, Lq]
  const __nv_bfloat16* kv_a = nullptr;  ///< [T, Lkv + r]
  const float* q_norm = nullptr;        ///< [Lq]
  const float* kv_norm = nullptr;       ///< [Lkv]
  float eps = 0;
  const std::int32_t* positions = nullptr;  ///< [T]
  RopeTable rope;
  __nv_bfloat16* q_c = nullptr;              ///< [T, Lq]
  __nv_bfloat16* cache = nullptr;            ///< [rows, LatentLayout::stride]
  const std::int32_t* cache_rows = nullptr;  ///< [T] the cache row of each token
};

void latent_norms(Stream stream, const LatentNorms& p);

/// Where the parts of a row of the latent cache, and of a query that meets it, lie.
struct LatentLayout {
  int latent = 0;  ///< entries of the latent part, a multiple of 16: the rotated part starts here
  int stride = 0;  ///< entries of a row, a multiple of 32

  constexpr LatentLayout(int kv_rank, int rope)
      : latent((kv_rank + 15) / 16 * 16), stride((latent + (rope + 15) / 16 * 16 + 31) / 32 * 32) {}
};

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
