#include "harness/checkpoint/natural_order.h"

#include <algorithm>
#include <cstddef>

namespace mtpcheck {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Cuts the longest prefix of digits, or of what is no digit, off `text`.
std::string_view take_run(std::string_view& text, bool digits) {
  std::size_t length = 0;
  while (length < text.size() && is_digit(text[length]) == digits) ++length;
  const std::string_view run = text.substr(0, length);
  text.remove_prefix(length);
  return run;
}

std::string_view without_leading_zeros(std::string_view digits) {
  while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
  return digits;
}

// Of any length: more digits are the larger number.
int compare_numbers(std::string_view a, std::string_view b) {
  a = without_leading_zeros(a);
  b = without_leading_zeros(b);
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  return a.compare(b);
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  std::string_view rest_a = a;
  std::string_view rest_b = b;
  for (bool digits = false; !rest_a.empty() && !rest_b.empty(); digits = !digits) {
    const std::string_view run_a = take_run(rest_a, digits);
    const std::string_view run_b = take_run(rest_b, digits);
    if (digits && (run_a.empty() || run_b.empty())) return run_a.empty() && !run_b.empty();
    const int order = digits ? compare_numbers(run_a, run_b) : run_a.compare(run_b);
    if (order != 0) return order < 0;
  }
  if (rest_a.empty() != rest_b.empty()) return rest_a.empty();
  return a < b;
}

}  // namespace mtpcheck
