#pragma once

#include <cstdint>

#include "cuda/kernels/stream.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// Verification of K drafts a sequence by rejection sampling: draft x is accepted while u · q(x) < p(x); a rejected one
/// is replaced by a sample of max(p − q, 0), and K acceptances are followed by one of the last p.
///
/// Source: Leviathan et al. 2022, algorithm 1; Chen et al. 2023, algorithm 2.
struct RejectionSampling {
  int sequences = 0;                     ///< B
  int steps = 0;                         ///< K
  int vocabulary = 0;                    ///< V
  const std::int32_t* drafts = nullptr;  ///< [B, K]
  const float* target = nullptr;         ///< [B, K + 1, V] probabilities p
  const float* draft = nullptr;     ///< [B, K, V] probabilities q; nullptr: drafts were chosen greedily, q is 1 at each
  const float* uniforms = nullptr;  ///< [B, 2K + 1] in [0, 1): 2k decides draft k, 2k+1 replaces it, 2K is the bonus'
  std::int32_t* tokens = nullptr;   ///< [B, K + 1] accepted drafts and one token more, −1 as padding
  std::int32_t* accepted = nullptr;  ///< [B] accepted drafts
};

void rejection_sampling(Stream stream, const RejectionSampling& p);

/// Greedy verification: drafts are accepted while each is the target's first largest logit; then that token follows.
struct GreedyVerification {
  int sequences = 0;
  int steps = 0;
  const std::int32_t* drafts = nullptr;             ///< [B, K]
  const unsigned long long* target_keys = nullptr;  ///< [B, K + 1] of argmax
  std::int32_t* tokens = nullptr;                   ///< [B, K + 1]
  std::int32_t* accepted = nullptr;                 ///< [B]
};

void greedy_verification(Stream stream, const GreedyVerification& p);

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
