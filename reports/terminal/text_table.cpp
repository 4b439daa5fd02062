#include "reports/terminal/text_table.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace mtpcheck::reports {
namespace {

const char* escape(Colour colour) {
  switch (colour) {
    case Colour::green:
      return "\033[32m";
    case Colour::red:
      return "\033[31m";
    case Colour::yellow:
      return "\033[33m";
    case Colour::dim:
      return "\033[2m";
    case Colour::bold:
      return "\033[1m";
    case Colour::none:
      break;
  }
  return "";
}

void append_cell(std::string& line, const TextTable::Cell& cell, std::size_t width, TextTable::Align align,
                 bool colours) {
  const std::string padding(width - display_width(cell.text), ' ');
  if (!line.empty()) line += "  ";
  if (align == TextTable::Align::right) line += padding;
  line += coloured(cell.text, cell.colour, colours);
  if (align == TextTable::Align::left) line += padding;
}

}  // namespace

std::string coloured(const std::string& text, Colour colour, bool enabled) {
  if (!enabled || colour == Colour::none || text.empty()) return text;
  return escape(colour) + text + "\033[0m";
}

bool colours_wanted(int file_descriptor) {
  const char* const terminal = std::getenv("TERM");
  return isatty(file_descriptor) == 1 && std::getenv("NO_COLOR") == nullptr &&
         (terminal == nullptr || std::string_view(terminal) != "dumb");
}

std::size_t display_width(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0u) != 0x80u; }));
}

std::string TextTable::render(bool colours) const {
  std::vector<std::size_t> widths;
  for (const auto& heading : headings_) widths.push_back(display_width(heading.text));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i].text));
  }
  std::string text;
  const auto append_line = [&](const std::vector<Cell>& row) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) append_cell(line, row[i], widths[i], headings_[i].align, colours);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  };
  std::vector<Cell> head;
  for (const auto& heading : headings_) head.push_back({heading.text, Colour::dim});
  append_line(head);
  for (const auto& row : rows_) append_line(row);
  return text;
}

}  // namespace mtpcheck::reports
