#pragma once

#include <cstddef>

#include "reference/model/config.h"

namespace mtpcheck::cuda {

/// The sizes of a head as kernels take them, by the letters of stages.h.
struct HeadShape {
  int hidden = 0;        ///< H
  int vocabulary = 0;    ///< V
  int q_rank = 0;        ///< Lq
  int kv_rank = 0;       ///< Lkv
  int heads = 0;         ///< N
  int nope = 0;          ///< n
  int rope = 0;          ///< r
  int value = 0;         ///< v
  int index_heads = 0;   ///< h; 0: dense attention
  int index_dims = 0;    ///< d
  int top_k = 0;         ///< k
  int experts = 0;       ///< E; 0: a dense MLP
  int used_experts = 0;  ///< K
  int inner = 0;         ///< I
  int plain_inner = 0;   ///< width of the shared expert or of the dense MLP; 0: none

  bool sparse() const { return index_heads > 0; }
  int query_dims() const { return nope + rope; }
};

/// Throws Error{input} for sizes beyond what kernels count in 32 bits.
HeadShape shape_of(const HeadConfig& config);

}  // namespace mtpcheck::cuda
