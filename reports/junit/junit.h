#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace mtpcheck::reports {

/// One check for a CI system's test view.
struct JUnitCase {
  std::string suite;    ///< "compare", "audit", …
  std::string name;     ///< the stage, parameter or item that was checked
  std::string failure;  ///< one line; empty: passed
  std::string details;  ///< more lines, and the repro
};

/// JUnit XML, as Jenkins, GitLab and GitHub actions read it. Characters that XML 1.0 cannot hold become U+FFFD.
std::string to_junit(const std::string& name, std::span<const JUnitCase> cases);

/// Writes it as a whole or not at all; throws Error{environment} when the file cannot be written.
void write_junit(const std::filesystem::path& path, const std::string& name, std::span<const JUnitCase> cases);

}  // namespace mtpcheck::reports
