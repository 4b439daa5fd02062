#pragma once

#include <vector>

#include "reports/record/comparison.h"
#include "reports/record/table.h"

namespace mtpcheck::reports {

/// The compound tables of a comparison, as they stand under /comparison: stages, cumulative, replay, selections, …;
/// without those that have no rows, but for `stages` and `cumulative`.
std::vector<Table> comparison_tables(const ComparisonRecord& comparison);

}  // namespace mtpcheck::reports
