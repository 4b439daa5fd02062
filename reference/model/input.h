#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/tensor/tensor.h"

namespace mtpcheck {

/// A batch of rows, packed: the rows of sequence s are cu_seqlens[s] .. cu_seqlens[s+1]−1. Sequences are independent.
struct HeadInput {
  std::vector<std::int64_t> input_ids;   // [T] already shifted by one: row i holds token i+1
  std::vector<std::int64_t> positions;   // [T] ≥ 0
  Tensor hidden_states;                  // [T, H] f32, bf16, f16 or f64
  std::vector<std::int64_t> cu_seqlens;  // [B+1], 0 … T
  Tensor inputs_embeds;                  // [T, H] instead of the embedding of input_ids; no elements: not given

  std::size_t tokens() const { return positions.size(); }
  std::size_t sequences() const { return cu_seqlens.empty() ? 0 : cu_seqlens.size() - 1; }
};

/// Rows [first, last) of one sequence of a batch, as a batch of their own; positions stay what they are.
HeadInput rows_between(const HeadInput& all, std::size_t first, std::size_t last);

/// Selections that are forced on a head instead of its own, one entry a packed row. An empty outer vector forces
/// nothing.
struct Selections {
  std::vector<std::vector<std::int32_t>> topk_indices;  ///< key indices within the row's sequence (cached keys first)
  std::vector<std::vector<std::int32_t>> topk_experts;  ///< ascending expert ids
};

}  // namespace mtpcheck
