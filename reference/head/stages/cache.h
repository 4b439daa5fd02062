#pragma once

#include <cstddef>
#include <vector>

namespace mtpcheck {

/// What one layer keeps of one sequence: latents with their rotated keys, and the indexer's keys.
template <class S>
struct LatentCache {
  std::size_t rows = 0;
  std::size_t index_rows = 0;   ///< fewer than `rows` after steps that skipped the indexer
  std::vector<S> latents;       // [rows, Lkv + r]: kv_c, k_pe
  std::vector<S> index_keys;    // [index_rows, d]
  std::vector<S> index_scales;  // [index_rows]; empty unless the keys are quantised

  /// Keeps the first `length` rows.
  void truncate(std::size_t length, std::size_t latent_width, std::size_t index_width) {
    if (length >= rows) return;
    rows = length;
    latents.resize(rows * latent_width);
    if (index_rows <= length) return;
    index_rows = length;
    index_keys.resize(index_rows * index_width);
    if (!index_scales.empty()) index_scales.resize(index_rows);
  }
};

}  // namespace mtpcheck
