#include "harness/checkpoint/bounded_json.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "reference/tensor/error.h"

namespace mtpcheck {

using Json = nlohmann::json;

Json parse_bounded_json(std::string_view text, const std::string& file, const JsonBounds& bounds) {
  if (text.size() > bounds.bytes) {
    throw input_error(fmt::format("{}: {} bytes long; at most {} were expected", file, text.size(), bounds.bytes));
  }
  std::vector<std::set<std::string>> open_objects;
  const Json::parser_callback_t check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > static_cast<int>(bounds.depth)) {
      throw input_error(fmt::format("{}: nested deeper than {} levels", file, bounds.depth));
    }
    if (event == Json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == Json::parse_event_t::object_end) open_objects.pop_back();
    if (event == Json::parse_event_t::key && !open_objects.back().insert(parsed.get<std::string>()).second) {
      throw input_error(fmt::format("{}: the key {} stands twice in one object", file, parsed.dump()));
    }
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const Json::parse_error& error) {
    throw input_error(fmt::format("{}: not valid JSON at byte {}: {}", file, error.byte, reason_of(error)));
  }
}

Json read_bounded_json(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream || std::filesystem::is_directory(file)) {
    throw input_error(fmt::format("{}: cannot be opened; a JSON file was expected", file.string()));
  }
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  return parse_bounded_json(text, file.string());
}

std::string reason_of(const std::exception& error) {
  const std::string_view text = error.what();  // "[json.exception.type_error.302] type must be number, but is string"
  const auto end = text.starts_with('[') ? text.find("] ") : std::string_view::npos;
  return std::string(end == std::string_view::npos ? text : text.substr(end + 2));
}

std::string quoted_json(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace mtpcheck
