#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cuda/head/activations.h"
#include "cuda/head/layer.h"
#include "cuda/runtime/graph.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// What a draft loop runs on; all of it outlives the loop.
struct DraftContext {
  Stream stream;
  const LayerSettings& settings;
  const __nv_bfloat16* embedding;
  std::span<const DeviceLayer> layers;
  std::span<LayerCache> caches;  ///< one a layer
  GemmLibrary& library;
};

/// Where each sequence stands before the first draft: the last token that was verified.
struct DraftStart {
  std::vector<std::int32_t> tokens;     ///< [B]
  std::vector<std::int32_t> positions;  ///< [B]
  std::vector<std::uint16_t> hidden;    ///< [B, row_stride(H)] bf16, the target's
};

/// One decode step: K greedy drafts of each of B sequences as one graph. Step k runs MTP layer k modulo their number on
/// the token just drafted, the hidden state of the step before and the next position; nothing comes back to the host in
/// between.
class DraftGraph {
 public:
  /// `capacity`: keys that a sequence may have at the end of the step. Makes room in the caches, allocates, and records
  /// the graph.
  DraftGraph(const DraftContext& context, int sequences, int steps, int capacity);
  DraftGraph(const DraftGraph&) = delete;  // the recorded work knows its address
  DraftGraph& operator=(const DraftGraph&) = delete;

  /// Uploads where the sequences stand, launches, and appends K rows of each to the caches. Drafts are [B, K].
  /// Throws Error{input} where a sequence would outgrow the capacity.
  std::vector<std::int32_t> run(const DraftStart& start);

  /// Launches once more without any of that, and waits: for timing. The caches' lengths are not touched.
  void launch() const;

  /// Whether the recorded graph serves: same sequences and drafts, room for `keys` keys, caches where they were.
  bool fits(int sequences, int steps, int keys) const;

 private:
  void enqueue() const;
  int rows_of_layer(std::size_t layer) const;

  DraftContext context_;
  int sequences_, steps_, capacity_;
  Activations activations_;
  Buffer<std::int32_t> ids_, positions_, drafts_;
  Buffer<__nv_bfloat16> hidden_;
  Buffer<unsigned long long> keys_;
  struct LayerRows {
    Buffer<std::int32_t> cache_rows, key_bases, key_counts;
  };
  std::vector<LayerRows> rows_;         ///< one a layer
  std::vector<int> cache_generations_;  ///< likewise, when the graph was recorded
  std::optional<Graph> graph_;
};

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
