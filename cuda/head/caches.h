#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <vector>

#include "cuda/head/shape.h"
#include "cuda/runtime/memory.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// What one MTP layer remembers of its sequences: a row a token of normed latents and rotated keys, and of index keys.
///
/// A sequence's rows are contiguous and have room to grow; where they have not, `reserve` moves all of them. That
/// happens between steps, never inside one.
class LayerCache {
 public:
  LayerCache(const HeadShape& shape, bool index_fp8);

  /// Makes room for `lengths[s]` rows of each sequence, keeping what is cached.
  void reserve(Stream stream, const std::vector<int>& lengths);
  void clear();

  int sequences() const { return static_cast<int>(rows_.size()); }
  int rows(int sequence) const { return rows_[sequence]; }
  void set_rows(int sequence, int rows) { rows_[sequence] = rows; }
  /// Counts the moves: who knows rows by their address looks here whether they are still there.
  int generation() const { return generation_; }
  /// The cache row of a sequence's first token.
  int base(int sequence) const { return bases_[sequence]; }

  __nv_bfloat16* latents() const { return latents_.data(); }
  __nv_bfloat16* index_keys() const { return index_keys_.data(); }   ///< nullptr with FP8
  std::uint8_t* index_codes() const { return index_codes_.data(); }  ///< nullptr without
  float* index_scales() const { return index_scales_.data(); }

 private:
  HeadShape shape_;
  bool index_fp8_;
  int generation_ = 0;
  std::vector<int> rows_, bases_, capacities_;
  Buffer<__nv_bfloat16> latents_, index_keys_;
  Buffer<std::uint8_t> index_codes_;
  Buffer<float> index_scales_;
};

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
