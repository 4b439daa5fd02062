#pragma once

#include <cstddef>
#include <exception>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace mtpcheck {

struct JsonBounds {
  std::size_t bytes = std::size_t{16} << 20;
  std::size_t depth = 64;
};

/// Parses a small JSON document (config.json, mtpcheck.json), within bounds on its size and depth, and without two
/// equal keys in one object. Throws Error{input} with `file`, the byte and the reason.
nlohmann::json parse_bounded_json(std::string_view text, const std::string& file, const JsonBounds& bounds = {});

/// The same of a whole file, or of what comes out of a pipe.
nlohmann::json read_bounded_json(const std::filesystem::path& file);

/// What the JSON library says is wrong, without its own name and number of the error.
std::string reason_of(const std::exception& error);

/// `text` as a JSON string literal, quotes included; bytes that are no UTF-8 become U+FFFD.
std::string quoted_json(const std::string& text);

}  // namespace mtpcheck
