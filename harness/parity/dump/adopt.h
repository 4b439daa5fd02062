#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/parity/dump/dump_file.h"
#include "harness/parity/dump/mapping.h"
#include "harness/parity/trace/trace.h"
#include "reports/record/comparison.h"

namespace mtpcheck {

/// The stages that a comparison will ask for, with their shapes.
using ExpectedStages = std::map<StageKey, Shape, ByComputation>;

struct Adopted {
  Trace trace;
  std::vector<reports::UnmatchedRecord>
      unmatched;                   ///< tensors that are no stage, with what they may have been meant as
  std::vector<std::string> notes;  ///< what was converted, and what could not be
};

/// A dump as a trace: names mapped, ranks put together, layouts converted (layout.h), fused tensors taken apart, packed
/// ones cut by sequence. A tensor that cannot be brought into its stage's shape is taken as it is, so that the
/// comparison fails there, with a note that says why. Throws Error{input} when two tensors claim one stage.
///
/// sequence_starts  cu_seqlens, [B+1]
/// wanted           stages that are compared; a tensor of another is passed over; empty: all
Adopted adopt(const Dump& dump, const Mapping& mapping, const ExpectedStages& expected,
              const std::vector<std::int64_t>& sequence_starts, const std::function<bool(Stage)>& wanted = {});

/// The tensors whose names begin with `prefix`, without it.
Dump under_prefix(const Dump& dump, const std::string& prefix);

}  // namespace mtpcheck
