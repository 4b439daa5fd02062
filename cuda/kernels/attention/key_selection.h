#pragma once

#include "cuda/kernels/attention/sparse_attention.h"
#include "cuda/simt/simt.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// The keys that a token attends to, as the j-th of `count`.
struct KeySelection {
  const std::int32_t* indices = nullptr;  ///< nullptr: key j itself
  int count = 0;                          ///< candidates; those with a negative index are padding

  __device__ KeySelection(const SparseAttention& p, std::int64_t token) {
    const int visible = p.key_counts[token];
    if (p.indices == nullptr) {
      count = visible;
    } else {
      indices = p.indices + token * p.k;
      count = p.k;
    }
  }
  /// −1 for padding and beyond the end.
  __device__ int key(int j) const {
    if (j >= count) return -1;
    return indices == nullptr ? j : indices[j];
  }
};

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
