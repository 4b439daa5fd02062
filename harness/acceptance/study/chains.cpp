#include "harness/acceptance/study/chains.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "reference/protocol/distribution.h"
#include "reference/protocol/drafter.h"

namespace mtpcheck {
namespace {

// Float32 hidden states of a trace's rows and what the prefill left for the chains.
struct SequenceState {
  std::vector<float> target_hidden;  // [T, H]
  std::vector<float> recycled;       // [T−1, H] final_layernorm of depth 1
  std::vector<std::int64_t> drafts;  // [T−1] own drafts of depth 1
};

std::size_t rows_of_trace(const TargetTrace& trace) { return trace.tokens() - 1; }

HeadInput block_of_rows(std::span<const TargetTrace> traces, std::span<const SequenceState> states, std::size_t hidden,
                        std::size_t first, std::size_t count) {
  HeadInput input;
  input.cu_seqlens.push_back(0);
  std::vector<float> rows;
  for (std::size_t s = 0; s < traces.size(); ++s) {
    const std::size_t end = std::min(first + count, rows_of_trace(traces[s]));
    for (std::size_t i = first; i < end; ++i) {
      input.input_ids.push_back(traces[s].input_ids[i + 1]);
      input.positions.push_back(traces[s].positions[i]);
      const auto* const row = states[s].target_hidden.data() + i * hidden;
      rows.insert(rows.end(), row, row + hidden);
    }
    input.cu_seqlens.push_back(static_cast<std::int64_t>(input.positions.size()));
  }
  input.hidden_states = tensor_of<float>({input.positions.size(), hidden}, rows);
  return input;
}

void prefill(Head& head, std::span<const TargetTrace> traces, std::vector<SequenceState>& states, std::size_t hidden,
             const ChainOptions& options, const OnDraft& on_draft) {
  std::size_t longest = 0;
  for (const auto& trace : traces) longest = std::max(longest, rows_of_trace(trace));
  for (std::size_t first = 0; first < longest; first += options.block_rows) {
    const HeadInput input = block_of_rows(traces, states, hidden, first, options.block_rows);
    const DraftStep step = draft_forward(head, input);
    for (std::size_t s = 0; s < traces.size(); ++s) {
      const auto begin = static_cast<std::size_t>(input.cu_seqlens[s]);
      const auto end = static_cast<std::size_t>(input.cu_seqlens[s + 1]);
      for (std::size_t packed = begin; packed < end; ++packed) {
        const auto logits = step.logits_of(packed);
        on_draft({s, first + packed - begin, 0, logits});
        if (options.depth == 1) continue;
        const auto* const row = step.hidden_states.data() + packed * hidden;
        states[s].recycled.insert(states[s].recycled.end(), row, row + hidden);
        if (options.drive == Drive::own) states[s].drafts.push_back(static_cast<std::int64_t>(argmax(logits)));
      }
    }
  }
}

// Depths 2 … K of the chains that start at row `start`, over the sequences that are long enough.
void chain_from(Head& head, std::span<const TargetTrace> traces, const std::vector<SequenceState>& states,
                std::size_t hidden, std::size_t start, const ChainOptions& options, const OnDraft& on_draft) {
  std::vector<std::vector<float>> recycled(traces.size());
  std::vector<std::int64_t> own(traces.size(), 0);
  for (std::size_t s = 0; s < traces.size(); ++s) {
    if (start >= rows_of_trace(traces[s])) continue;
    head.rollback(s, start + 1);
    const auto* const row = states[s].recycled.data() + start * hidden;
    recycled[s].assign(row, row + hidden);
    if (options.drive == Drive::own) own[s] = states[s].drafts[start];
  }
  for (std::size_t depth = 1; depth < options.depth; ++depth) {
    std::vector<NextRow> rows(traces.size());
    bool any = false;
    for (std::size_t s = 0; s < traces.size(); ++s) {
      rows[s].empty = start + depth + 1 >= traces[s].tokens();
      if (rows[s].empty) continue;
      any = true;
      rows[s].token = options.drive == Drive::trace ? traces[s].input_ids[start + 1 + depth] : own[s];
      rows[s].position = traces[s].positions[start] + static_cast<std::int64_t>(depth);
      rows[s].hidden = recycled[s];
    }
    if (!any) return;
    const DraftStep step =
        draft_forward(head, rows_as_input(rows, hidden), {.step = depth, .spec_step_idx = depth, .forced = nullptr});
    std::size_t packed = 0;
    for (std::size_t s = 0; s < traces.size(); ++s) {
      if (rows[s].empty) continue;
      const auto logits = step.logits_of(packed);
      on_draft({s, start, depth, logits});
      const auto* const row = step.hidden_states.data() + packed * hidden;
      recycled[s].assign(row, row + hidden);
      if (options.drive == Drive::own) own[s] = static_cast<std::int64_t>(argmax(logits));
      ++packed;
    }
  }
}

}  // namespace

void run_chains(Head& head, std::span<const TargetTrace> traces, const ChainOptions& options, const OnDraft& on_draft) {
  if (traces.empty()) return;
  const std::size_t hidden = traces.front().target_hidden.shape.at(1);
  std::vector<SequenceState> states(traces.size());
  std::size_t longest = 0;
  for (std::size_t s = 0; s < traces.size(); ++s) {
    states[s].target_hidden = to_f32(traces[s].target_hidden.view());
    longest = std::max(longest, rows_of_trace(traces[s]));
  }
  head.reset();
  prefill(head, traces, states, hidden, options, on_draft);
  if (options.depth == 1) return;
  for (std::size_t start = longest; start-- > options.first_row;) {
    chain_from(head, traces, states, hidden, start, options, on_draft);
  }
}

}  // namespace mtpcheck
