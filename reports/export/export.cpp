#include "reports/export/export.h"

#include <fmt/format.h>

#include <cstring>
#include <variant>

#include "reference/tensor/error.h"
#include "reports/atomic_file.h"
#include "reports/schema/comparison_tables.h"
#include "reports/schema/rows.h"

namespace mtpcheck::reports {
namespace {

namespace fs = std::filesystem;

std::string csv_text(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted(1, '"');
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  quoted += '"';
  return quoted;
}

std::string csv_cell(const Column& column, std::size_t row) {
  if (const auto* const texts = std::get_if<std::vector<std::string>>(&column.values)) return csv_text((*texts)[row]);
  if (const auto* const reals = std::get_if<std::vector<double>>(&column.values))
    return fmt::format("{}", (*reals)[row]);
  return fmt::format("{}", std::get<std::vector<std::int64_t>>(column.values)[row]);
}

std::vector<std::byte> npy_bytes(const KeptTensor& tensor, const std::vector<std::int64_t>& extents) {
  const char* const type = tensor.type == KeptTensor::Type::f32   ? "<f4"
                           : tensor.type == KeptTensor::Type::f64 ? "<f8"
                                                                  : "<i4";
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({},), }}", type, fmt::join(extents, ", "));
  constexpr std::size_t kPreamble = 10;  // magic, version, length
  header.resize((kPreamble + header.size() + 1 + 63) / 64 * 64 - kPreamble, ' ');
  header.back() = '\n';
  std::string start("\x93NUMPY\x01\x00", 8);
  start += static_cast<char>(header.size() & 0xFFu);
  start += static_cast<char>(header.size() >> 8);
  start += header;
  std::vector<std::byte> bytes(start.size() + tensor.bytes.size());
  std::memcpy(bytes.data(), start.data(), start.size());
  if (!tensor.bytes.empty()) std::memcpy(bytes.data() + start.size(), tensor.bytes.data(), tensor.bytes.size());
  return bytes;
}

std::vector<Table> tables_of(const Report& report) {
  std::vector<Table> tables;
  if (report.comparison) tables = comparison_tables(*report.comparison);
  if (!report.findings.empty()) tables.push_back(table_of("findings", "a finding", report.findings));
  tables.insert(tables.end(), report.tables.begin(), report.tables.end());
  return tables;
}

}  // namespace

std::string to_csv(const Table& table) {
  std::vector<std::string> cells;
  for (const auto& column : table.columns) cells.push_back(csv_text(column.name));
  std::string text = fmt::format("{}\n", fmt::join(cells, ","));
  for (std::size_t row = 0; row < table.rows(); ++row) {
    cells.clear();
    for (const auto& column : table.columns) cells.push_back(csv_cell(column, row));
    text += fmt::format("{}\n", fmt::join(cells, ","));
  }
  return text;
}

std::vector<fs::path> export_report(const Report& report, const fs::path& folder) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) throw environment_error(folder.string() + ": " + failure.message());
  std::vector<fs::path> files;
  for (const auto& table : tables_of(report)) {
    files.push_back(folder / (table.name + ".csv"));
    const std::string text = to_csv(table);
    write_atomically(files.back(), text);
  }
  if (!report.comparison) return files;
  for (const auto& stage : report.comparison->stages) {
    for (const auto& [side, tensor] :
         {std::pair{"reference", &stage.reference_tensor}, std::pair{"candidate", &stage.candidate_tensor}}) {
      if (!*tensor) continue;
      files.push_back(folder / fmt::format("{}.{}.npy", stage.name, side));
      write_atomically(files.back(), npy_bytes(**tensor, stage.extents));
    }
  }
  return files;
}

}  // namespace mtpcheck::reports
