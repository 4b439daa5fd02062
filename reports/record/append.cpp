#include "reports/record/append.h"

#include <fmt/format.h>

#include <algorithm>

#include "reference/tensor/error.h"

namespace mtpcheck::reports {
namespace {

Column column_for(const NamedCell& cell) {
  return std::visit(
      [&](const auto& value) {
        using Value = std::remove_cvref_t<decltype(value)>;
        const bool text = std::is_same_v<Value, std::string>;
        return Column{std::string(cell.column), text ? "" : std::string(cell.unit), std::vector<Value>{}};
      },
      cell.value);
}

}  // namespace

void append_row(Report& report, const std::string& name, const std::string& title, const std::vector<NamedCell>& row) {
  auto found = std::ranges::find(report.tables, name, &Table::name);
  if (found == report.tables.end()) {
    Table table{name, title, {}};
    for (const auto& cell : row) table.columns.push_back(column_for(cell));
    report.tables.push_back(std::move(table));
    found = report.tables.end() - 1;
  }
  const auto mismatch = [&] {
    return input_error(fmt::format("table {} of the report has other columns than this version writes", name));
  };
  if (found->columns.size() != row.size()) throw mismatch();
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (found->columns[i].name != row[i].column) throw mismatch();
    std::visit(
        [&](const auto& value) {
          using Values = std::vector<std::remove_cvref_t<decltype(value)>>;
          auto* const values = std::get_if<Values>(&found->columns[i].values);
          if (values == nullptr) throw mismatch();
          values->push_back(value);
        },
        row[i].value);
  }
}

const Table* find_table(const Report& report, std::string_view name) {
  const auto found = std::ranges::find(report.tables, name, &Table::name);
  return found == report.tables.end() ? nullptr : &*found;
}

}  // namespace mtpcheck::reports
