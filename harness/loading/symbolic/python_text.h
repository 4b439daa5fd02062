#pragma once

#include <string>
#include <string_view>

/// What Python's `in`, `str.replace`, `str.upper` and `str.lower` do with names.
namespace mtpcheck {

/// part in text
inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// text.replace(from, to): every occurrence.
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

/// text.upper() and text.lower(), of ASCII letters.
std::string upper(std::string text);
std::string lower(std::string text);

}  // namespace mtpcheck
