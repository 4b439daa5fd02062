#pragma once

#include <cstdint>

#include "cuda/kernels/stream.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// The experts of each token and their weights, from the router's logits in float32.
///
/// score = sigmoid(logit); the top_k largest of score + bias are chosen, the lowest index among equals; their weights
/// are the bare scores, divided by (their sum + 1e-20) where `normalise`, times `scale`. With groups > 1 only the
/// top_groups groups of experts with the largest sum of their two best choices take part.
struct Router {
  int tokens = 0;
  int experts = 0;  ///< E, at most 1024
  int top_k = 0;    ///< K
  int groups = 1;
  int top_groups = 1;
  bool normalise = true;
  float scale = 1;
  const float* logits = nullptr;         ///< [T, E]
  const float* bias = nullptr;           ///< [E]
  const std::int32_t* forced = nullptr;  ///< [T, K] experts to take instead of the best; nullptr: none
  std::int32_t* chosen = nullptr;        ///< [T, K] ascending
  float* weights = nullptr;              ///< [T, K]
};

/// Throws mtpcheck::Error for more than 1024 experts.
void router(Stream stream, const Router& p);

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
