#pragma once

#include "cuda/kernels/moe/dispatch.h"
#include "cuda/kernels/numeric/rows.h"
#include "cuda/simt/simt.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// The places in the sorted list that one expert works on; none: count is 0.
struct ExpertRange {
  int expert = 0;
  int first = 0;
  int count = 0;
};

/// Of the slot-th expert in use.
__device__ inline ExpertRange range_of_slot(const ExpertLists& lists, int slot, int tokens) {
  if (lists.offsets == nullptr) return {0, 0, tokens};
  if (slot >= *lists.active_count) return {};
  const int expert = lists.active[slot];
  return {expert, lists.offsets[expert], lists.offsets[expert + 1] - lists.offsets[expert]};
}

/// Of the tile-th piece of `size` places, counted over all experts.
__device__ inline ExpertRange range_of_tile(const ExpertLists& lists, int tile, int size, int tokens) {
  const int slots = lists.offsets == nullptr ? 1 : *lists.active_count;
  for (int slot = 0; slot < slots; ++slot) {
    const ExpertRange range = range_of_slot(lists, slot, tokens);
    const int tiles = ceil_div(range.count, size);
    if (tile < tiles) {
      const int left = range.count - tile * size;
      return {range.expert, range.first + tile * size, left < size ? left : size};
    }
    tile -= tiles;
  }
  return {};
}

/// The token of a place.
__device__ inline int token_of_place(const ExpertLists& lists, int place, int top_k) {
  return lists.pairs == nullptr ? place : lists.pairs[place] / top_k;
}

/// silu(min(gate, limit)) · clamp(up, ±limit); no limit: 0. NaN passes through.
__device__ inline float swiglu(float gate, float up, float limit) {
  if (limit > 0.0f) {
    gate = gate > limit ? limit : gate;
    up = up > limit ? limit : up < -limit ? -limit : up;
  }
  return gate / (1.0f + expf(-gate)) * up;
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
