#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "harness/parity/comparison/reference_runs.h"
#include "harness/parity/comparison/stage_record.h"
#include "harness/parity/stage/tolerance.h"
#include "harness/parity/trace/trace.h"
#include "reports/record/comparison.h"

namespace mtpcheck {

struct ComparisonOptions {
  Tolerance tolerance;
  std::size_t steps = 1;
  /// Force the candidate's choices on the reference in every row that differs; else in the excused ones only.
  bool force_selections = false;
  Keep keep = Keep::none;
  std::vector<std::int64_t> sequence_starts;  ///< cu_seqlens of the first step, [B+1]
  std::function<void(std::string_view doing)> progress;
};

/// Compares what a candidate recorded with the reference, stage by stage, in the cumulative view and, where the
/// reference can replay, on the candidate's own inputs.
///
/// Selections are settled first, in the order of computation: where a row's choice differs by less than the noise of
/// the scores, the reference is run again with the candidate's choice forced in that row, so that what follows stays
/// comparable. See docs/tolerance.md.
reports::ComparisonRecord compare(const Trace& candidate, const ReferenceRuns& reference,
                                  const ComparisonOptions& options);

}  // namespace mtpcheck
