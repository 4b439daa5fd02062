#pragma once

#include <string>

#include "reports/record/report.h"

namespace mtpcheck::reports {

/// "31 % of allowance", without its last two words: "31 %", "> 999 %", "–" where nothing was allowed or used.
std::string percent_of_allowance(double used);

/// A comparison as an aligned table: a line a stage with its errors and the share of the allowance, then the verdict,
/// the first divergent stage, likely causes, unmatched tensors and notes.
std::string render_comparison(const ComparisonRecord& comparison, bool colours);

/// Any report: its header (checkpoint, sides, conventions), the comparison, findings, tables, and the repro line.
std::string render_report(const Report& report, bool colours);

}  // namespace mtpcheck::reports
