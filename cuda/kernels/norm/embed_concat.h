#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "cuda/kernels/stream.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// eh_proj's input: [enorm(embedding) ‖ hnorm(hidden)].
struct EmbedConcat {
  int tokens = 0;
  int hidden = 0;                                ///< H
  const std::int32_t* ids = nullptr;             ///< [T], in the vocabulary
  const std::int32_t* positions = nullptr;       ///< [T]
  const __nv_bfloat16* embedding = nullptr;      ///< [V, H]
  const __nv_bfloat16* inputs_embeds = nullptr;  ///< [T, H] instead of the embedding; nullptr: not given
  const __nv_bfloat16* hidden_states = nullptr;  ///< [T, H]
  const float* enorm = nullptr;                  ///< [H]
  const float* hnorm = nullptr;                  ///< [H]
  float eps = 0;
  bool position_zero_mask = true;         ///< a row at position 0 has a zero embedding
  __nv_bfloat16* concatenated = nullptr;  ///< [T, 2H]
  __nv_bfloat16* embed_masked = nullptr;  ///< [T, H], or nullptr when nobody asks for it
};

void embed_concat(Stream stream, const EmbedConcat& p);

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
