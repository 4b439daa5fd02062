#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "harness/parity/comparison/reference_runs.h"
#include "harness/parity/metrics/selection.h"
#include "harness/parity/stage/tolerance.h"
#include "harness/parity/trace/trace.h"

namespace mtpcheck {

/// Choices in a stage's tensor [rows, width], i32 or any other integer type.
Choices choices_of(const TensorView& tensor);

/// True when every row of a recorded choice is one that a head can run with: of experts as many as it uses, of keys one
/// or more. Ids below 0 are padding.
///
/// expected  the shape that the reference records, [rows, width]
bool can_be_replayed(const StageKey& key, const Tensor& choices, const Shape& expected);

/// What a step of a trace has chosen, row by packed row.
Selections selections_of(const Trace& trace, std::size_t step);

/// The rows of scores that decide a stage of choices, with their noise: 2 · (k · largest error of the rounded reference
/// in that row + the floor at the row's largest score), since both of two keys may be off, in opposite directions.
/// Engines keep these scores in float32, whatever P is: the floor is in ulps of float32, or of the type in which the
/// truth's scores are recorded where that is a shorter one (a replay's truth is what the candidate recorded).
///
/// key      topk_indices (scores: indexer_scores) or topk_experts (scores: from router_logits)
/// Empty when a trace lacks the scores.
std::vector<ScoredRow> scored_rows(const StageKey& key, const Trace& truth, const Trace& rounded,
                                   const ReferenceRuns& reference, const Tolerance& tolerance);

}  // namespace mtpcheck
