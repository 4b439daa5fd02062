#include "reports/junit/junit.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/atomic_file.h"

namespace mtpcheck::reports {
namespace {

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\n':
        safe += "&#10;";
        break;
      case '\t':
        safe += "&#9;";
        break;
      default:
        safe += static_cast<unsigned char>(c) < 0x20 ? std::string("\xEF\xBF\xBD") : std::string(1, c);
    }
  }
  return safe;
}

}  // namespace

std::string to_junit(const std::string& name, std::span<const JUnitCase> cases) {
  const auto failures = std::ranges::count_if(cases, [](const JUnitCase& one) { return !one.failure.empty(); });
  std::string xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  xml += fmt::format(
      "<testsuites name=\"{0}\" tests=\"{1}\" failures=\"{2}\">\n  <testsuite name=\"{0}\" tests=\"{1}\" "
      "failures=\"{2}\">\n",
      escaped(name), cases.size(), failures);
  for (const auto& one : cases) {
    xml += fmt::format("    <testcase classname=\"{}\" name=\"{}\"", escaped(one.suite), escaped(one.name));
    if (one.failure.empty()) {
      xml += "/>\n";
      continue;
    }
    xml += fmt::format(">\n      <failure message=\"{}\">{}</failure>\n    </testcase>\n", escaped(one.failure),
                       escaped(one.details));
  }
  return xml + "  </testsuite>\n</testsuites>\n";
}

void write_junit(const std::filesystem::path& path, const std::string& name, std::span<const JUnitCase> cases) {
  const std::string xml = to_junit(name, cases);
  write_atomically(path, xml);
}

}  // namespace mtpcheck::reports
