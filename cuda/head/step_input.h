#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <vector>

#include "cuda/head/caches.h"
#include "cuda/head/draft_graph.h"
#include "cuda/head/layer.h"
#include "cuda/head/recording.h"
#include "cuda/runtime/memory.h"
#include "reference/model/head.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// Rows of a tensor as bf16, row_stride(width) apart.
std::vector<std::uint16_t> bf16_rows_of(const Tensor& tensor, int width);
/// A batch of one row a sequence.
DraftStart draft_start(const HeadInput& last, const HeadShape& shape);

/// A batch's rows that are in device memory already, used where they lie.
struct DeviceInput {
  const std::int32_t* ids = nullptr;             ///< [T]; not read where inputs_embeds are given
  const std::int32_t* positions = nullptr;       ///< [T]
  const __nv_bfloat16* hidden_states = nullptr;  ///< [T, row_stride(H)]
  const __nv_bfloat16* inputs_embeds = nullptr;  ///< [T, row_stride(H)] or nullptr
  std::vector<std::int64_t> cu_seqlens;          ///< [B + 1], 0 … T
  std::int64_t longest = 0;                      ///< the largest position; only RoPE of type `dynamic` depends on it
  Stream produced_on = nullptr;                  ///< the stream whose work so far writes the rows

  int tokens() const { return static_cast<int>(cu_seqlens.back()); }
};

/// A step's rows in device memory: a batch's, uploaded or where they lie, and where the caches have their place.
class StepInput {
 public:
  /// Throws Error{input} for forced selections that cannot be: another number of rows, keys that the row cannot see,
  /// more keys than the top-k, experts that do not exist or are not K.
  StepInput(Stream stream, const HeadShape& shape, const HeadInput& input, const Selections* forced,
            const std::vector<SequenceStep>& sequences, const LayerCache& cache);
  StepInput(Stream stream, const HeadShape& shape, const DeviceInput& input, const Selections* forced,
            const std::vector<SequenceStep>& sequences, const LayerCache& cache);

  const StepRows& rows() const { return rows_; }

 private:
  void place_rows(Stream stream, const std::vector<SequenceStep>& sequences, const LayerCache& cache);
  void upload_forced(Stream stream, const HeadShape& shape, const Selections& forced);

  StepRows rows_;
  std::vector<std::int32_t> counts_;
  Buffer<std::int32_t> ids_, positions_, cache_rows_, key_bases_, key_counts_, forced_keys_, forced_experts_;
  Buffer<__nv_bfloat16> hidden_states_, inputs_embeds_;
};

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
