#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "reports/record/report.h"
#include "reports/record/table.h"

namespace mtpcheck::reports {

using Cell = std::variant<double, std::int64_t, std::string>;

/// A named cell of a row that is being appended; the unit is that of its column.
struct NamedCell {
  std::string_view column;
  Cell value;
  std::string_view unit = "1";
};

/// Appends a row to the report's table of that name, which is made with the row's columns when it is the first. Throws
/// Error{input} when the columns are not those of the table: it was written by another version.
void append_row(Report& report, const std::string& table, const std::string& title, const std::vector<NamedCell>& row);

/// The report's table of that name, or nullptr.
const Table* find_table(const Report& report, std::string_view name);

}  // namespace mtpcheck::reports
