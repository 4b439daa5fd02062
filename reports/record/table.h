#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace mtpcheck::reports {

/// One column of a table: real numbers, integers or texts, one value a row.
struct Column {
  std::string name;
  std::string unit;  ///< "1" for a pure number, "" for a text or an id
  std::variant<std::vector<double>, std::vector<std::int64_t>, std::vector<std::string>> values;

  std::size_t rows() const;
};

/// One cell as a reader sees it: reals with six digits, integers and texts as they are. Throws std::out_of_range.
std::string cell_text(const Column& column, std::size_t row);

/// A named table whose columns have equally many rows: the form in which every list of a report is stored (a compound
/// dataset in HDF5, an array of objects in JSON). A verb may record tables of its own.
struct Table {
  std::string name;   ///< last component of its path in the file: letters, digits, '_'
  std::string title;  ///< what a row is
  std::vector<Column> columns;

  std::size_t rows() const { return columns.empty() ? 0 : columns.front().rows(); }
};

/// The column of that name, or nullptr.
const Column* find_column(const Table& table, std::string_view name);

/// Cells of one row by column name, for readers of files that may be older than a column: a missing column, or one of
/// another type, gives the fallback.
class RowReader {
 public:
  RowReader(const Table& table, std::size_t row) : table_(table), row_(row) {}

  double number(std::string_view column, double fallback = 0) const;
  std::int64_t integer(std::string_view column, std::int64_t fallback = 0) const;
  std::string text(std::string_view column, std::string_view fallback = {}) const;

 private:
  const Table& table_;
  std::size_t row_;
};

}  // namespace mtpcheck::reports
