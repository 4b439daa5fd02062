#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "reports/record/report.h"

namespace mtpcheck::reports {

/// A table as CSV with a line of column names; texts quoted where RFC 4180 asks for it, numbers with all their digits.
std::string to_csv(const Table& table);

/// Every table of the report as FOLDER/NAME.csv, and every tensor that it keeps as FOLDER/STAGE.reference.npy and
/// FOLDER/STAGE.candidate.npy. Creates the folder. Returns the files, in the order in which they were written. Throws
/// Error{environment} when something cannot be written.
std::vector<std::filesystem::path> export_report(const Report& report, const std::filesystem::path& folder);

}  // namespace mtpcheck::reports
