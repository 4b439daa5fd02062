#pragma once

#include <cstdint>

#include "cuda/kernels/stream.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// Which tokens each expert works on. A pair is (token t, its k-th expert), numbered t·K + k; pairs are sorted by
/// expert and, within an expert, by number. Rows of experts' inputs and outputs are in that order.
struct ExpertLists {
  std::int32_t* offsets = nullptr;       ///< [E + 1] first pair of each expert
  std::int32_t* pairs = nullptr;         ///< [T·K] pair at each place
  std::int32_t* places = nullptr;        ///< [T·K] place of each pair
  std::int32_t* active = nullptr;        ///< [min(E, T·K)] the experts that have pairs, ascending
  std::int32_t* active_count = nullptr;  ///< [1]
};

struct ExpertDispatch {
  int tokens = 0;
  int top_k = 0;                         ///< K
  int experts = 0;                       ///< E
  const std::int32_t* chosen = nullptr;  ///< [T, K]
  ExpertLists lists;
};

void expert_dispatch(Stream stream, const ExpertDispatch& p);

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
