#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "reports/record/report.h"

namespace mtpcheck::reports {

/// The report as the bytes of an HDF5 file, schema version kSchemaVersion (docs/report-schema.md). The same report
/// gives the same bytes.
std::vector<std::byte> to_hdf5(const Report& report);

/// Writes the HDF5 file as a whole, or not at all. Throws Error{environment} when there is no space or no permission.
void write_report(const std::filesystem::path& path, const Report& report);

/// Reads a report of this schema version or an older one. Throws Error{input} for a file that is absent, damaged, no
/// report, or of a newer version.
Report read_report(const std::filesystem::path& path);

}  // namespace mtpcheck::reports
