#include "golden/cases/case_text.h"

#include <charconv>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace mtpcheck::golden {

namespace {

bool match_from(std::string_view pattern, std::string_view name, std::vector<std::string>& stars) {
  if (pattern.empty()) return name.empty();
  if (pattern.front() != '*') {
    return !name.empty() && name.front() == pattern.front() && match_from(pattern.substr(1), name.substr(1), stars);
  }
  for (std::size_t taken = name.size() + 1; taken-- > 0;) {
    stars.emplace_back(name.substr(0, taken));
    if (match_from(pattern.substr(1), name.substr(taken), stars)) return true;
    stars.pop_back();
  }
  return false;
}

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

}  // namespace

std::map<std::string, std::vector<CaseLine>> read_case_lines(const std::filesystem::path& folder) {
  std::map<std::string, std::vector<CaseLine>> cases;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".txt") continue;
    std::ifstream file(entry.path());
    std::vector<CaseLine>* lines = nullptr;
    for (std::string line; std::getline(file, line);) {
      const auto text = trimmed(line);
      if (text.empty() || text.front() == '#') continue;
      const auto blank = text.find(' ');
      CaseLine parsed{std::string(text.substr(0, blank)), ""};
      if (blank != std::string_view::npos) parsed.rest = trimmed(text.substr(blank));
      if (parsed.word == "case") {
        lines = &cases[parsed.rest];
      } else if (lines != nullptr) {
        lines->push_back(std::move(parsed));
      } else {
        throw std::runtime_error(entry.path().string() + " begins with no case");
      }
    }
  }
  if (cases.empty()) throw std::runtime_error("no cases in " + folder.string());
  return cases;
}

std::optional<std::string> first_of(const std::vector<CaseLine>& lines, std::string_view word) {
  for (const auto& line : lines) {
    if (line.word == word) return line.rest;
  }
  return std::nullopt;
}

std::string long_name(std::string_view name) {
  if (!name.empty() && name.front() == '~') return "model.mtp_layers.0." + std::string(name.substr(1));
  if (!name.empty() && name.front() == '^') return "model.layers.3.mtp_block." + std::string(name.substr(1));
  return std::string(name);
}

std::optional<std::vector<std::string>> match(std::string_view pattern, std::string_view name) {
  std::vector<std::string> stars;
  if (!match_from(long_name(pattern), name, stars)) return std::nullopt;
  return stars;
}

std::string filled(std::string_view pattern, const std::vector<std::string>& stars) {
  std::string name;
  std::size_t next = 0;
  for (const char c : long_name(pattern)) {
    if (c == '*') {
      name += stars.at(next++);
    } else {
      name += c;
    }
  }
  return name;
}

std::vector<std::string> words_of(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(std::move(word));
  return words;
}

std::vector<std::size_t> parse_shape(std::string_view text) {
  std::vector<std::size_t> shape;
  const char* at = text.data() + 1;
  const char* end = text.data() + text.size() - 1;
  while (at < end) {
    std::size_t extent = 0;
    const auto [next, error] = std::from_chars(at, end, extent);
    if (error != std::errc{}) throw std::runtime_error("no shape: " + std::string(text));
    shape.push_back(extent);
    at = next + 1;
  }
  return shape;
}

}  // namespace mtpcheck::golden
