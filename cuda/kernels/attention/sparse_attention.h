#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "cuda/kernels/stream.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// Multi-head latent attention in absorbed form: each head's query meets the cached latents themselves, and what it
/// takes home is a latent too, which the value projection turns into the head's output.
///
///   logit[h, j] = scale · query[t, h] · cache[j]           over the selected keys j
///   out[t, h]   = Σ_j softmax(logit ‖ sink[h])_j · latent of cache[j]
///
/// Rows of queries and cache are laid out as LatentLayout says.
struct SparseAttention {
  int tokens = 0;
  int heads = 0;                             ///< N
  int kv_rank = 0;                           ///< Lkv, at most 512
  int rope = 0;                              ///< r
  const __nv_bfloat16* query = nullptr;      ///< [T, N, LatentLayout::stride]
  const __nv_bfloat16* cache = nullptr;      ///< [rows, LatentLayout::stride]
  const std::int32_t* key_bases = nullptr;   ///< [T] cache row of key 0 of the token's sequence
  const std::int32_t* key_counts = nullptr;  ///< [T] keys the token may see
  const std::int32_t* indices = nullptr;  ///< [T, k] selected keys, −1 at the end; nullptr: all keys the token may see
  int k = 0;
  int max_keys = 0;               ///< the largest of key_counts
  float scale = 1;                ///< (n + r)^−½
  const float* sink = nullptr;    ///< [N]; nullptr: none
  int splits = 1;                 ///< blocks that share the keys of a token, from attention_splits
  float* partial = nullptr;       ///< [T, splits, N, LatentLayout::latent] with splits > 1
  float* partial_sums = nullptr;  ///< [T, splits, N, 2] maximum and sum, with splits > 1
  __nv_bfloat16* out = nullptr;   ///< [T, N, LatentLayout::latent]
};

/// How many blocks should share a token's keys so that about `multiprocessors` have work.
int attention_splits(int tokens, int heads, int keys, int multiprocessors);

/// Throws mtpcheck::Error for a kv_rank above 512.
void sparse_attention(Stream stream, const SparseAttention& p);

/// The probabilities themselves, for whoever wants to see them: nobody computes with these.
struct AttentionProbabilities {
  SparseAttention attention;       ///< splits, partial and out are not used
  float* probabilities = nullptr;  ///< [N, T, max_keys], zero where not selected
};

void attention_probabilities(Stream stream, const AttentionProbabilities& p);

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
