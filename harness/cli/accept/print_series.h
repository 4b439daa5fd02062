#pragma once

#include <string>

#include "reports/record/report.h"

namespace mtpcheck::cli {

/// Prints a series of a report: rates with their counts and intervals by depth, bounds and labels where there are any,
/// the engines' figures with numerators and denominators, the difference to the baseline, the loop and the speed-up.
void print_series(const reports::Report& report, const std::string& name);

}  // namespace mtpcheck::cli
