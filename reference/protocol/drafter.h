#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "reference/model/head.h"
#include "reference/tensor/tensor.h"

namespace mtpcheck {

/// What a draft step leaves for the next one and for the sampler: logits and recycled hidden state of some rows.
struct DraftStep {
  std::size_t rows = 0;
  std::size_t vocabulary = 0;
  std::size_t hidden = 0;
  std::vector<float> logits;         // [rows, V]
  std::vector<float> hidden_states;  // [rows, H], final_layernorm: the next step's hidden state

  std::span<const float> logits_of(std::size_t row) const {
    return std::span(logits).subspan(row * vocabulary, vocabulary);
  }
};

/// Runs one forward and keeps logits and final_layernorm, as float32, of every row.
DraftStep draft_forward(Head& head, const HeadInput& input, const ForwardOptions& options = {});

/// One more row for each of several sequences, which are the cache's sequences 0 … B−1 in order. A sequence with no row
/// this time has `rows[s].empty`.
struct NextRow {
  bool empty = false;
  std::int64_t token = 0;
  std::int64_t position = 0;
  std::span<const float> hidden;  // [H]
};

/// The batch of one row a sequence; hidden states are float32.
HeadInput rows_as_input(std::span<const NextRow> rows, std::size_t hidden_size);

/// The rows that a drafter feeds for a prefix of which the target has processed tokens 0 … n−1 and chosen token n:
/// row i pairs the target's hidden state of token i with token i+1 at position i (i = 0 … n−1).
///
/// tokens  [n+1]     hidden_states  [n, H], of the target, after its final norm
HeadInput prefix_rows(std::span<const std::int64_t> tokens, const Tensor& hidden_states,
                      std::int64_t first_position = 0);

/// Chooses a draft from its logits: `choose(sequence, step, logits)` gives the token.
using ChooseDraft = std::function<std::int64_t(std::size_t sequence, std::size_t step, std::span<const float> logits)>;

/// The drafter's loop: K drafts a sequence from the last row of `first`. Step k ≥ 1 feeds the token just drafted with
/// the step before's own hidden state at the next position; its rows stay in the cache until `Head::rollback`.
///
/// first           the step-0 forward's output over all its rows
/// last_rows       per sequence: index of its last row in `first`
/// last_positions  per sequence: position of that row
/// Returns drafts [B][K], and hands every step's output to `observe` when given.
///
/// Source: vLLM's EAGLE proposer (one token a step, hidden state recycled from final_layernorm).
std::vector<std::vector<std::int64_t>> draft(
    Head& head, const DraftStep& first, std::span<const std::size_t> last_rows,
    std::span<const std::int64_t> last_positions, std::size_t steps, const ChooseDraft& choose,
    const std::function<void(std::size_t step, const DraftStep&)>& observe = {});

}  // namespace mtpcheck
