#include "reports/record/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

namespace mtpcheck::reports {
namespace {

template <class T>
const T* cell(const Table& table, std::string_view name, std::size_t row) {
  const Column* const column = find_column(table, name);
  if (column == nullptr) return nullptr;
  const auto* const values = std::get_if<std::vector<T>>(&column->values);
  return values != nullptr && row < values->size() ? &(*values)[row] : nullptr;
}

}  // namespace

std::size_t Column::rows() const {
  return std::visit([](const auto& cells) { return cells.size(); }, values);
}

std::string cell_text(const Column& column, std::size_t row) {
  return std::visit(
      [row](const auto& cells) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(cells)>, std::vector<double>>) {
          return fmt::format("{:.6g}", cells.at(row));
        } else {
          return fmt::format("{}", cells.at(row));
        }
      },
      column.values);
}

const Column* find_column(const Table& table, std::string_view name) {
  const auto found = std::ranges::find(table.columns, name, &Column::name);
  return found == table.columns.end() ? nullptr : &*found;
}

double RowReader::number(std::string_view column, double fallback) const {
  const auto* const value = cell<double>(table_, column, row_);
  return value == nullptr ? fallback : *value;
}

std::int64_t RowReader::integer(std::string_view column, std::int64_t fallback) const {
  const auto* const value = cell<std::int64_t>(table_, column, row_);
  return value == nullptr ? fallback : *value;
}

std::string RowReader::text(std::string_view column, std::string_view fallback) const {
  const auto* const value = cell<std::string>(table_, column, row_);
  return value == nullptr ? std::string(fallback) : *value;
}

}  // namespace mtpcheck::reports
