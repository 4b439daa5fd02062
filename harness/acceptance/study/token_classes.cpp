#include "harness/acceptance/study/token_classes.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "harness/checkpoint/bounded_json.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

struct ClassRange {
  std::int64_t last = 0;
  std::string name;
};

// First id of a range → its last id and class; ranges do not overlap.
using ClassRanges = std::map<std::int64_t, ClassRange>;

void add_range(ClassRanges& ranges, std::int64_t first, std::int64_t last, const std::string& name,
               const std::string& file) {
  const auto after = ranges.upper_bound(last);
  if (after != ranges.begin() && std::prev(after)->second.last >= first) {
    throw input_error(fmt::format("{}: tokens {} to {} of class {} are also in class {}", file, first, last, name,
                                  std::prev(after)->second.name));
  }
  ranges.emplace(first, ClassRange{last, name});
}

}  // namespace

TokenClass read_token_classes(const std::filesystem::path& path) {
  const auto json = read_bounded_json(path);
  ClassRanges ranges;
  try {
    for (const auto& [name, members] : json.items()) {
      for (const auto& member : members) {
        const bool range = member.is_array();
        const auto first = (range ? member.at(0) : member).get<std::int64_t>();
        const auto last = (range ? member.at(1) : member).get<std::int64_t>();
        add_range(ranges, first, last, name, path.string());
      }
    }
  } catch (const nlohmann::json::exception& error) {
    throw input_error(
        fmt::format("{}: {}; {{\"class\": [id, [first, last], …]}} was expected", path.string(), reason_of(error)));
  }
  return [ranges = std::move(ranges)](std::int64_t token) -> std::string {
    const auto after = ranges.upper_bound(token);
    if (after == ranges.begin() || std::prev(after)->second.last < token) return "other";
    return std::prev(after)->second.name;
  };
}

}  // namespace mtpcheck
