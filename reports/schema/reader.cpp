#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <sstream>

#include "reference/tensor/error.h"
#include "reports/hdf5/file_image.h"
#include "reports/hdf5/node.h"
#include "reports/schema/layout.h"
#include "reports/schema/report_file.h"
#include "reports/schema/rows.h"

namespace mtpcheck::reports {
namespace {

hdf5::Handle open_group(hid_t parent, const std::string& path) {
  const hid_t group = H5Gopen2(parent, path.c_str(), H5P_DEFAULT);
  if (group < 0) throw input_error("the report has no group '" + path + "': the file is damaged");
  return {group, H5Gclose, "opening"};
}

template <class Record>
void read_attributes(hid_t object, Record& record) {
  for (const auto& field : fields<Record>()) {
    std::visit(
        [&](auto member) {
          auto& value = record.*member;
          if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, bool>) {
            value = hdf5::read_attribute(object, std::string(field.name), std::int64_t{value}) != 0;
          } else {
            value = hdf5::read_attribute(object, std::string(field.name), value);
          }
        },
        field.member);
  }
}

Table table_or_empty(hid_t group, const std::string& name) {
  return hdf5::has_link(group, name) ? hdf5::read_table(group, name) : Table{};
}

StageRecord* stage_called(std::vector<StageRecord>& stages, const std::string& name) {
  const auto found = std::ranges::find(stages, name, &StageRecord::name);
  return found == stages.end() ? nullptr : &*found;
}

template <class Record>
void read_optional_rows(hid_t group, const std::string& name, std::vector<StageRecord>& stages,
                        std::optional<Record> StageRecord::*member) {
  const Table table = table_or_empty(group, name);
  for (std::size_t i = 0; i < table.rows(); ++i) {
    const RowReader row(table, i);
    StageRecord* const stage = stage_called(stages, row.text("name"));
    if (stage == nullptr) continue;
    stage->*member = Record{};
    read_row(row, *(stage->*member));
  }
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

std::vector<WorstElement> read_worst(hid_t group, std::size_t dimensions) {
  const Table table = table_or_empty(group, "worst");
  std::vector<WorstElement> worst(table.rows());
  for (std::size_t i = 0; i < worst.size(); ++i) {
    const RowReader row(table, i);
    for (std::size_t d = 0; d < dimensions && d < table.columns.size(); ++d) {
      worst[i].coordinates.push_back(row.integer(table.columns[d].name));
    }
    worst[i].reference = row.number("reference");
    worst[i].candidate = row.number("candidate");
  }
  return worst;
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::optional<KeptTensor> read_kept(hid_t group, const std::string& name) {
  if (!hdf5::has_link(group, name)) return std::nullopt;
  const hdf5::Handle dataset(H5Dopen2(group, name.c_str(), H5P_DEFAULT), H5Dclose, "opening " + name);
  const hdf5::Handle type(H5Dget_type(dataset.get()), H5Tclose, "reading the type of " + name);
  if (H5Tget_class(type.get()) == H5T_INTEGER) {
    const auto values = hdf5::read_integers(group, name);
    return KeptTensor{KeptTensor::Type::i32, bytes_of(std::vector<std::int32_t>(values.begin(), values.end()))};
  }
  const auto values = hdf5::read_doubles(group, name);
  if (H5Tget_size(type.get()) == sizeof(double)) return KeptTensor{KeptTensor::Type::f64, bytes_of(values)};
  return KeptTensor{KeptTensor::Type::f32, bytes_of(std::vector<float>(values.begin(), values.end()))};
}

void read_stage(hid_t root, StageRecord& stage, bool several_sequences) {
  const std::string path = layout::group_of(stage, several_sequences);
  if (!hdf5::has_link(root, path)) return;
  const hdf5::Handle group = open_group(root, path);
  stage.dimensions = split(hdf5::read_attribute(group.get(), "dimensions", std::string()));
  if (hdf5::has_link(group.get(), "extents")) stage.extents = hdf5::read_integers(group.get(), "extents");
  if (hdf5::has_link(group.get(), "token_rms")) stage.profile.token_rms = hdf5::read_doubles(group.get(), "token_rms");
  if (hdf5::has_link(group.get(), "token_allowance")) {
    stage.profile.token_allowance = hdf5::read_doubles(group.get(), "token_allowance");
  }
  if (hdf5::has_link(group.get(), "channel_rms")) {
    stage.profile.channel_rms = hdf5::read_doubles(group.get(), "channel_rms");
  }
  if (stage.distribution && hdf5::has_link(group.get(), "histogram")) {
    stage.distribution->histogram = hdf5::read_integers(group.get(), "histogram");
  }
  stage.worst = read_worst(group.get(), stage.dimensions.size());
  stage.reference_tensor = read_kept(group.get(), "reference");
  stage.candidate_tensor = read_kept(group.get(), "candidate");
}

ComparisonRecord read_comparison(hid_t root) {
  const hdf5::Handle group = open_group(root, "comparison");
  ComparisonRecord comparison;
  comparison.pass = hdf5::read_attribute(group.get(), "verdict", std::string()) == "pass";
  comparison.first_divergent_stage = hdf5::read_attribute(group.get(), "first_divergent_stage", std::string());
  comparison.first_failing_stage_in_replay =
      hdf5::read_attribute(group.get(), "first_failing_stage_in_replay", std::string());
  comparison.tokens = hdf5::read_attribute(group.get(), "tokens", std::int64_t{0});
  read_attributes(group.get(), comparison.tolerance);
  if (hdf5::has_link(group.get(), "sequence_starts")) {
    comparison.sequence_starts = hdf5::read_integers(group.get(), "sequence_starts");
  }
  comparison.stages = records_of<StageRecord>(table_or_empty(group.get(), "stages"));
  const Table cumulative = table_or_empty(group.get(), "cumulative");
  for (std::size_t i = 0; i < cumulative.rows(); ++i) {
    const RowReader row(cumulative, i);
    if (StageRecord* const stage = stage_called(comparison.stages, row.text("name"))) read_row(row, stage->cumulative);
  }
  read_optional_rows(group.get(), "replay", comparison.stages, &StageRecord::replay);
  read_optional_rows(group.get(), "selections", comparison.stages, &StageRecord::selection);
  read_optional_rows(group.get(), "selections_replay", comparison.stages, &StageRecord::selection_replay);
  read_optional_rows(group.get(), "distributions", comparison.stages, &StageRecord::distribution);
  read_optional_rows(group.get(), "logits", comparison.stages, &StageRecord::logits);
  comparison.unmatched = records_of<UnmatchedRecord>(table_or_empty(group.get(), "unmatched"));
  const Table notes = table_or_empty(group.get(), "notes");
  for (std::size_t i = 0; i < notes.rows(); ++i) comparison.notes.push_back(RowReader(notes, i).text("text"));
  const bool several = comparison.sequence_starts.size() > 2;
  for (auto& stage : comparison.stages) read_stage(root, stage, several);
  return comparison;
}

Report read_version_1(hid_t file) {
  Report report;
  report.schema_version = 1;
  report.verb = hdf5::read_attribute(file, "verb", std::string());
  report.pass = hdf5::read_attribute(file, "verdict", std::string()) == "pass";
  read_attributes(open_group(file, "run").get(), report.run);
  read_attributes(open_group(file, "checkpoint").get(), report.checkpoint);
  if (hdf5::has_link(file, "sides")) {
    const hdf5::Handle sides = open_group(file, "sides");
    auto roles = hdf5::members(sides.get());
    std::ranges::sort(roles, std::ranges::greater());  // reference before candidate
    for (const auto& role : roles) {
      const hdf5::Handle group = open_group(sides.get(), role);
      report.sides.push_back({role, hdf5::read_attribute(group.get(), "head", std::string()),
                              hdf5::read_attribute(group.get(), "dtype", std::string()),
                              records_of<ConventionRecord>(table_or_empty(group.get(), "conventions"))});
    }
  }
  if (hdf5::has_link(file, "comparison")) report.comparison = read_comparison(file);
  report.findings = records_of<FindingRecord>(table_or_empty(file, "findings"));
  if (hdf5::has_link(file, "tables")) {
    const hdf5::Handle group = open_group(file, "tables");
    for (const auto& name : hdf5::members(group.get())) report.tables.push_back(hdf5::read_table(group.get(), name));
  }
  return report;
}

/// One a version, from 1 on: whatever changes the meaning of something gets a reader of its own, and those before stay.
constexpr std::array<Report (*)(hid_t file), kSchemaVersion> kReaders = {read_version_1};

Report read_open_report(hid_t file) {
  const std::int64_t version = hdf5::read_attribute(file, "schema_version", std::int64_t{0});
  if (hdf5::read_attribute(file, "format", std::string()) != layout::kFormat || version < 1) {
    throw input_error("an HDF5 file, but no mtpcheck report: attribute 'format' is not 'mtpcheck report'");
  }
  if (version > kSchemaVersion) {
    throw input_error(fmt::format("schema version {}, this mtpcheck reads up to {}. Use the mtpcheck that wrote it.",
                                  version, kSchemaVersion));
  }
  return kReaders.at(static_cast<std::size_t>(version - 1))(file);
}

}  // namespace

Report read_report(const std::filesystem::path& path) {
  const hdf5::Handle file = hdf5::open_for_reading(path.string());
  try {
    return read_open_report(file.get());
  } catch (const Error& error) {
    throw Error(Failure::input, path.string() + ": " + error.what());
  }
}

}  // namespace mtpcheck::reports
