#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "harness/parity/trace/trace.h"
#include "reference/model/head.h"
#include "reference/model/input.h"

namespace mtpcheck {

/// Index of the last row of each sequence.
std::vector<std::size_t> last_rows(const HeadInput& input);

/// The token with the largest logit in the last row of each sequence, of a step's recorded logits; the lowest of equal
/// ones. Throws Error{input} where the logits were not recorded.
std::vector<std::int64_t> drafted_tokens(const Trace& trace, std::size_t step, const HeadInput& input);

/// The input of the draft step after `step`: one row a sequence, at the next position, with the given token and the
/// step's own hidden state (final_layernorm) of the sequence's last row.
HeadInput next_input(const Trace& trace, std::size_t step, const HeadInput& input,
                     const std::vector<std::int64_t>& tokens);

/// What a head recorded over several draft steps, and the input of each.
struct Chain {
  Trace trace;
  std::vector<HeadInput> inputs;  ///< [K]
};

/// Runs K draft steps from empty caches: the first on `input`, each later one on the token that the step before drafts.
Chain run_chain(Head& head, const HeadInput& input, std::size_t steps, const std::function<bool(Stage)>& wanted = {});

/// The same along tokens that are given: `steps[k]` has the tokens of step k ≥ 1; hidden states are the head's own.
Trace follow_chain(Head& head, const std::vector<HeadInput>& steps, const std::vector<Selections>& forced,
                   const std::function<bool(Stage)>& wanted = {});

}  // namespace mtpcheck
