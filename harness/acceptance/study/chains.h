#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "harness/acceptance/trace/target_trace.h"
#include "reference/model/head.h"

namespace mtpcheck {

/// Which token a draft step hands to the next one.
enum class Drive : std::uint8_t {
  own,    ///< the draft's own first largest logit: what an engine's greedy drafter does
  trace,  ///< the trace's token: the path on which the target's distributions are known
};

struct ChainOptions {
  std::size_t depth = 1;
  Drive drive = Drive::trace;
  std::size_t first_row = 0;  ///< chains start at rows first_row … (deeper than 1); depth 1 is observed for every row
  std::size_t block_rows = 64;  ///< rows of a sequence in a prefill block: bounds the logits that are held at once
};

/// The logits of one draft: row i of a sequence, depth 0 … K−1.
struct DraftRow {
  std::size_t sequence = 0;
  std::size_t row = 0;
  std::size_t depth = 0;
  std::span<const float> logits;  // [V], valid during the call
};

using OnDraft = std::function<void(const DraftRow&)>;

/// Drives a head along traces: a chain of `depth` drafts from every row i, 0 ≤ i ≤ T−2, as long as its token is there
/// to judge (i + depth ≤ T − 1). The chain from row i sees the true rows 0 … i and its own later rows, as in an engine.
///
/// All traces advance together, one packed sequence each. Depth 1 is one prefill in blocks; deeper chains go from the
/// last row to the first, so that the true rows are cached once and only rolled back.
void run_chains(Head& head, std::span<const TargetTrace> traces, const ChainOptions& options, const OnDraft& on_draft);

}  // namespace mtpcheck
