#include "harness/cli/number_checks.h"

#include <cmath>
#include <cstdlib>

namespace mtpcheck::cli {
namespace {

bool is_number(const std::string& text) {
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  return !text.empty() && end == text.c_str() + text.size();
}

}  // namespace

std::string not_negative(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\n");
  if (first == std::string::npos || text[first] != '-') return {};
  return "'" + text + "' is negative: 0 or more was expected";
}

std::string finite_not_negative(const std::string& text) {
  const double value = std::strtod(text.c_str(), nullptr);
  if (!is_number(text) || (std::isfinite(value) && value >= 0)) return {};
  return "'" + text + "' is out of range: a finite number, 0 or more, was expected";
}

std::string finite_positive(const std::string& text) {
  const double value = std::strtod(text.c_str(), nullptr);
  if (!is_number(text) || (std::isfinite(value) && value > 0)) return {};
  return "'" + text + "' is out of range: a finite number above 0 was expected";
}

}  // namespace mtpcheck::cli
