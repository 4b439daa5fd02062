#include "harness/gate/baseline.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\r") - first + 1));
}

[[noreturn]] void refuse(const std::string& file, int line, const std::string& what) {
  throw input_error(fmt::format("{}: line {}: {}", file, line, what));
}

// "item <= 0.62", "item >= 0.9", "item allowed".
Limit parse_rule(const std::string& rule, const std::string& file, int line) {
  Limit limit;
  limit.line = line;
  for (const auto& [mark, bound] : {std::pair{"<=", Bound::at_most}, std::pair{">=", Bound::at_least}}) {
    const auto at = rule.rfind(mark);
    if (at == std::string::npos) continue;
    limit.item = trimmed(rule.substr(0, at));
    limit.bound = bound;
    const std::string number = trimmed(rule.substr(at + 2));
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), limit.value);
    if (error != std::errc{} || end != number.data() + number.size() || number.empty()) {
      refuse(file, line, fmt::format("'{}' after {}: a number was expected", number, mark));
    }
    if (!std::isfinite(limit.value)) refuse(file, line, fmt::format("'{}' after {}: not finite", number, mark));
    return limit;
  }
  static constexpr std::string_view kAllowed = " allowed";
  if (!rule.ends_with(kAllowed)) {
    refuse(file, line, fmt::format("'{}': expected ITEM <= NUMBER, ITEM >= NUMBER or ITEM allowed", rule));
  }
  limit.item = trimmed(rule.substr(0, rule.size() - kAllowed.size()));
  limit.bound = Bound::allowed;
  return limit;
}

void require_one_line(const Limit& limit) {
  if (limit.bound != Bound::allowed && !std::isfinite(limit.value)) {
    throw input_error(fmt::format("the limit of {} is {:g}: expected a finite number", limit.item, limit.value));
  }
  for (const std::string* const text : {&limit.item, &limit.reason}) {
    if (text->find_first_of("\n\r") == std::string::npos) continue;
    throw input_error(fmt::format("a limit is one line of a baseline, and this one has several: '{}'", *text));
  }
}

std::string rule_of(const Limit& limit) {
  switch (limit.bound) {
    case Bound::at_most:
      return fmt::format("{} <= {:.6g}", limit.item, limit.value);
    case Bound::at_least:
      return fmt::format("{} >= {:.6g}", limit.item, limit.value);
    case Bound::allowed:
      return fmt::format("{} allowed", limit.item);
  }
  return {};
}

}  // namespace

Baseline parse_baseline(const std::string& text, const std::string& file) {
  Baseline baseline;
  std::set<std::string> seen;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const auto hash = line.find(" #");
    const std::string rule = trimmed(line.substr(0, hash));
    if (rule.empty() || rule.starts_with('#')) continue;
    Limit limit = parse_rule(rule, file, number);
    if (hash != std::string::npos) limit.reason = trimmed(std::string_view(line).substr(hash + 2));
    if (limit.item.empty()) refuse(file, number, "no item before the bound");
    if (limit.reason.empty()) refuse(file, number, fmt::format("{} has no reason: add '# why' at the end", limit.item));
    if (!seen.insert(limit.item).second) refuse(file, number, fmt::format("{} is limited twice", limit.item));
    baseline.limits.push_back(std::move(limit));
  }
  return baseline;
}

Baseline read_baseline(const std::filesystem::path& path) {
  std::ifstream stream(path);
  if (!stream) throw input_error(fmt::format("{}: cannot be opened", path.string()));
  std::ostringstream text;
  text << stream.rdbuf();
  return parse_baseline(text.str(), path.string());
}

std::string to_text(const Baseline& baseline) {
  auto limits = baseline.limits;
  std::ranges::sort(limits, {}, &Limit::item);
  std::ranges::for_each(limits, require_one_line);
  std::size_t width = 0;
  for (const auto& limit : limits) width = std::max(width, rule_of(limit).size());
  std::string text =
      "# What may not get worse, and why each limit is what it is. `mtpcheck gate REPORT --baseline FILE` checks it.\n";
  for (const auto& limit : limits) text += fmt::format("{:<{}}  # {}\n", rule_of(limit), width, limit.reason);
  return text;
}

}  // namespace mtpcheck
