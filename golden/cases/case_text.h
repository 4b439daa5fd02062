#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The text of golden/loader and golden/loader-sglang; golden/loader/README.md explains its lines.
namespace mtpcheck::golden {

/// One line of a case: its first word and the rest.
struct CaseLine {
  std::string word;
  std::string rest;
};

/// Case name → its lines in order, of every .txt file in `folder`.
std::map<std::string, std::vector<CaseLine>> read_case_lines(const std::filesystem::path& folder);

/// Rest of the first line with this word; nullopt where there is none.
std::optional<std::string> first_of(const std::vector<CaseLine>& lines, std::string_view word);

/// `~` → "model.mtp_layers.0.", `^` → "model.layers.3.mtp_block."; another name as it is.
std::string long_name(std::string_view name);

/// What each * of a pattern stands for in `name`, longest first; nullopt where the name does not match.
std::optional<std::vector<std::string>> match(std::string_view pattern, std::string_view name);

/// The pattern with its stars replaced in order.
std::string filled(std::string_view pattern, const std::vector<std::string>& stars);

/// Words of a line, split at blanks.
std::vector<std::string> words_of(std::string_view text);

/// [24,64] → {24, 64}
std::vector<std::size_t> parse_shape(std::string_view text);

}  // namespace mtpcheck::golden
