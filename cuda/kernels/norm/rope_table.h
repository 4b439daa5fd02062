#pragma once

namespace mtpcheck::cuda {

/// RoPE as a kernel needs it.
struct RopeTable {
  int dims = 0;                        ///< r, even
  bool half_split = false;             ///< pairs (i, i + r/2) instead of (2i, 2i+1)
  const double* half_turns = nullptr;  ///< [r/2] frequencies, in units of π a position
  float scale = 1;                     ///< on cos and sin: YaRN's attention factor
};

}  // namespace mtpcheck::cuda
