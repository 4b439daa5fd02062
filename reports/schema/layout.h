#pragma once

#include <string>

#include "reports/record/comparison.h"

/// Names that the writer and the reader of a report's file share.
namespace mtpcheck::reports::layout {

inline const std::string kFormat = "mtpcheck report";

/// "/sequences/seq0/q_rope": the group of a stage. Stages over all packed rows are in "packed" where there are several
/// sequences.
std::string group_of(const StageRecord& stage, bool several_sequences);

}  // namespace mtpcheck::reports::layout
