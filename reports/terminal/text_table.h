#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mtpcheck::reports {

enum class Colour : std::uint8_t { none, green, red, yellow, dim, bold };

/// `text` in ANSI colour where `enabled`, else as it is.
std::string coloured(const std::string& text, Colour colour, bool enabled);

/// True when `file_descriptor` is a terminal, NO_COLOR is unset and TERM is not "dumb".
bool colours_wanted(int file_descriptor);

/// Columns on the screen that UTF-8 `text` takes; one a code point.
std::size_t display_width(const std::string& text);

/// Lines of aligned columns. The first column stands left, numbers right.
class TextTable {
 public:
  enum class Align : std::uint8_t { left, right };

  struct Heading {
    std::string text;
    Align align = Align::right;
  };

  struct Cell {
    std::string text;
    Colour colour = Colour::none;
  };

  explicit TextTable(std::vector<Heading> headings) : headings_(std::move(headings)) {}

  /// One cell a heading.
  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }

  std::string render(bool colours) const;

 private:
  std::vector<Heading> headings_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace mtpcheck::reports
