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

/// A batch's rows, uploaded.
class StepInput {
 public:
  /// Throws Error{input} for forced selections that cannot be: another number of rows, keys that the row cannot see,
  /// more keys than the top-k, experts that do not exist or are not K.
  StepInput(Stream stream, const HeadShape& shape, const HeadInput& input, const Selections* forced,
            const std::vector<SequenceStep>& sequences, const LayerCache& cache);

  StepRows rows() const;

 private:
  void upload_forced(Stream stream, const HeadShape& shape, const Selections& forced);

  int tokens_ = 0;
  int max_keys_ = 0;
  std::vector<std::int32_t> counts_;
  Buffer<std::int32_t> ids_, positions_, cache_rows_, key_bases_, key_counts_, forced_keys_, forced_experts_;
  Buffer<__nv_bfloat16> hidden_states_, inputs_embeds_;
};

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
