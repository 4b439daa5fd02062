#pragma once

#include <string>

#include "reports/record/report.h"

namespace mtpcheck::reports {

/// The report as one self-contained HTML page: style, script and data inside, nothing from the network. Light and dark,
/// usable by keyboard. Rendered from what the HDF5 file holds, never beside it.
std::string to_html(const Report& report);

}  // namespace mtpcheck::reports
