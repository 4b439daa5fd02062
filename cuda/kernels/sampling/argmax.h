#pragma once

#include <cstdint>

#include "cuda/kernels/stream.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// The first largest logit of each row, as a selection key: argmax_of(key) is its index. NaN counts as the largest.
struct Argmax {
  int rows = 0;
  int width = 0;                       ///< V
  const float* logits = nullptr;       ///< [T, V]
  unsigned long long* keys = nullptr;  ///< [T]; must be 0 before
};

void argmax(Stream stream, const Argmax& p);

constexpr std::int32_t argmax_of(unsigned long long key) {
  return static_cast<std::int32_t>(0xFFFFFFFFu - static_cast<std::uint32_t>(key));
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
