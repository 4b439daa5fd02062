#pragma once

#include <string_view>

namespace mtpcheck {

/// The tool's version, e.g. "0.1.0": in every report, and what `mtpcheck --version` prints.
std::string_view version();

}  // namespace mtpcheck
