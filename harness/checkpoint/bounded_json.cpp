#include "harness/checkpoint/bounded_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "reference/tensor/error.h"

namespace mtpcheck {

using nlohmann::json;

json parse_bounded_json(std::string_view text, const std::string& file, const JsonBounds& bounds) {
  if (text.size() > bounds.bytes) {
    throw input_error(fmt::format("{}: {} bytes long; at most {} were expected", file, text.size(), bounds.bytes));
  }
  std::vector<std::set<std::string>> open_objects;
  const json::parser_callback_t check = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > static_cast<int>(bounds.depth)) {
      throw input_error(fmt::format("{}: nested deeper than {} levels", file, bounds.depth));
    }
    if (event == json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == json::parse_event_t::object_end) open_objects.pop_back();
    if (event == json::parse_event_t::key && !open_objects.back().insert(parsed.get<std::string>()).second) {
      throw input_error(fmt::format("{}: the key {} stands twice in one object", file, parsed.dump()));
    }
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::parse_error& error) {
    throw input_error(fmt::format("{}: not valid JSON at byte {}: {}", file, error.byte, error.what()));
  }
}

}  // namespace mtpcheck
