#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "reports/record/fields.h"
#include "reports/record/table.h"

/// Records as rows of a table and back, by their fields.
namespace mtpcheck::reports {

/// A record with the name of the stage it belongs to.
template <class Record>
using OfStage = std::pair<std::string, Record>;

namespace detail {

template <class Record, class Rows, class Access>
Column column_of(const Field<Record>& field, const Rows& rows, Access access) {
  Column column{std::string(field.name), std::string(field.unit), {}};
  std::visit(
      [&](auto member) {
        using Value = std::remove_cvref_t<decltype(std::declval<Record>().*member)>;
        using Cell = std::conditional_t<std::is_same_v<Value, bool>, std::int64_t, Value>;
        std::vector<Cell> cells;
        cells.reserve(rows.size());
        for (const auto& row : rows) cells.push_back(static_cast<Cell>(access(row).*member));
        column.values = std::move(cells);
      },
      field.member);
  return column;
}

}  // namespace detail

template <class Record>
Table table_of(std::string name, std::string title, const std::vector<Record>& records) {
  Table table{std::move(name), std::move(title), {}};
  for (const auto& field : fields<Record>()) {
    table.columns.push_back(detail::column_of(field, records, [](const Record& row) -> const Record& { return row; }));
  }
  return table;
}

/// The first column is "name", the stage.
template <class Record>
Table table_of(std::string name, std::string title, const std::vector<OfStage<Record>>& records) {
  Table table{std::move(name), std::move(title), {}};
  std::vector<std::string> stages;
  stages.reserve(records.size());
  for (const auto& record : records) stages.push_back(record.first);
  table.columns.push_back({"name", "", std::move(stages)});
  for (const auto& field : fields<Record>()) {
    table.columns.push_back(
        detail::column_of(field, records, [](const OfStage<Record>& row) -> const Record& { return row.second; }));
  }
  return table;
}

/// Columns that an older file lacks leave their member as it is.
template <class Record>
void read_row(const RowReader& row, Record& record) {
  for (const auto& field : fields<Record>()) {
    std::visit(
        [&](auto member) {
          auto& value = record.*member;
          using Value = std::remove_cvref_t<decltype(value)>;
          if constexpr (std::is_same_v<Value, double>) value = row.number(field.name, value);
          if constexpr (std::is_same_v<Value, std::int64_t>) value = row.integer(field.name, value);
          if constexpr (std::is_same_v<Value, bool>) value = row.integer(field.name, value ? 1 : 0) != 0;
          if constexpr (std::is_same_v<Value, std::string>) value = row.text(field.name, value);
        },
        field.member);
  }
}

template <class Record>
std::vector<Record> records_of(const Table& table) {
  std::vector<Record> records(table.rows());
  for (std::size_t i = 0; i < records.size(); ++i) read_row(RowReader(table, i), records[i]);
  return records;
}

}  // namespace mtpcheck::reports
