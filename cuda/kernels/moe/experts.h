#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "cuda/kernels/linear/weight_view.h"
#include "cuda/kernels/moe/dispatch.h"
#include "cuda/kernels/stream.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// The first half of SwiGLU for all (token, expert) pairs: act = silu(min(gate, limit)) · clamp(up, ±limit).
///
/// With empty lists it is a plain MLP: one expert that takes every token, top_k = 1.
struct ExpertsUp {
  int tokens = 0;
  int top_k = 1;    ///< K
  int experts = 1;  ///< E
  ExpertLists lists;
  const __nv_bfloat16* x = nullptr;  ///< [T, H]
  WeightView gate;                   ///< E stacked matrices [I, H]
  WeightView up;                     ///< E stacked matrices [I, H], in gate's format
  float limit = 0;                   ///< 0: no clamp
  __nv_bfloat16* act = nullptr;      ///< [T·K, I] in the order of lists.pairs
};

/// The second half: y = down act, a row a pair.
struct ExpertsDown {
  int tokens = 0;
  int top_k = 1;
  int experts = 1;
  ExpertLists lists;
  const __nv_bfloat16* act = nullptr;  ///< [T·K, I]
  WeightView down;                     ///< E stacked matrices [H, I]
  float* y = nullptr;                  ///< [T·K, H]
};

/// At most kStreamedTokens tokens: bound by the bytes of the experts in use.
void experts_up_streamed(Stream stream, const ExpertsUp& p);
void experts_down_streamed(Stream stream, const ExpertsDown& p);
/// Any number of tokens, on 64 × 128 tiles.
void experts_up_tiled(Stream stream, const ExpertsUp& p);
void experts_down_tiled(Stream stream, const ExpertsDown& p);

/// The one that suits the number of tokens.
void experts_up(Stream stream, const ExpertsUp& p);
void experts_down(Stream stream, const ExpertsDown& p);

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
