#include <fmt/format.h>

#include <variant>

#include "reports/atomic_file.h"
#include "reports/hdf5/file_image.h"
#include "reports/hdf5/node.h"
#include "reports/schema/comparison_tables.h"
#include "reports/schema/layout.h"
#include "reports/schema/report_file.h"
#include "reports/schema/rows.h"

namespace mtpcheck::reports {

std::string layout::group_of(const StageRecord& stage, bool several_sequences) {
  const std::string step = stage.step == 0 ? std::string() : fmt::format("step{}.", stage.step);
  const std::string sequence = stage.sequence >= 0 ? fmt::format("seq{}", stage.sequence)
                               : several_sequences ? std::string("packed")
                                                   : std::string("seq0");
  return fmt::format("sequences/{}/{}{}", sequence, step, stage.stage);
}

namespace {

std::string verdict(bool pass) { return pass ? "pass" : "fail"; }

template <class Record>
void write_attributes(hid_t object, const Record& record) {
  for (const auto& field : fields<Record>()) {
    std::visit(
        [&](auto member) {
          using Value = std::remove_cvref_t<decltype(record.*member)>;
          if constexpr (std::is_same_v<Value, bool>) {
            hdf5::write_attribute(object, std::string(field.name), std::int64_t{record.*member});
          } else {
            hdf5::write_attribute(object, std::string(field.name), record.*member);
          }
        },
        field.member);
  }
}

Table worst_table(const StageRecord& stage) {
  Table table{"worst", "elements with the largest error, largest first", {}};
  for (std::size_t d = 0; d < stage.dimensions.size(); ++d) {
    std::vector<std::int64_t> coordinates;
    for (const auto& element : stage.worst) coordinates.push_back(element.coordinates[d]);
    table.columns.push_back({fmt::format("i{}_{}", d, stage.dimensions[d]), "", std::move(coordinates)});
  }
  std::vector<double> reference;
  std::vector<double> candidate;
  for (const auto& element : stage.worst) {
    reference.push_back(element.reference);
    candidate.push_back(element.candidate);
  }
  table.columns.push_back({"reference", "stage", std::move(reference)});
  table.columns.push_back({"candidate", "stage", std::move(candidate)});
  return table;
}

void write_kept(hid_t group, const std::string& name, const StageRecord& stage, const KeptTensor& tensor) {
  const hid_t type = tensor.type == KeptTensor::Type::f32   ? H5T_NATIVE_FLOAT
                     : tensor.type == KeptTensor::Type::f64 ? H5T_NATIVE_DOUBLE
                                                            : H5T_NATIVE_INT32;
  hdf5::write_array(group, name, type, stage.extents, tensor.bytes.data(), stage.dimensions, "stage");
}

void write_profile(hid_t group, const StageRecord& stage) {
  const auto& profile = stage.profile;
  if (!profile.token_rms.empty()) {
    std::vector<std::int64_t> rows(profile.token_rms.size());
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int64_t>(i);
    const hdf5::Handle scale = hdf5::write_array(group, "token", rows, "token", "row");
    const hdf5::Handle errors = hdf5::write_array(group, "token_rms", profile.token_rms, "token", "stage");
    hdf5::attach_scale(errors, scale, 0, "token");
    const hdf5::Handle limits = hdf5::write_array(group, "token_allowance", profile.token_allowance, "token", "stage");
    hdf5::attach_scale(limits, scale, 0, "token");
  }
  if (!profile.channel_rms.empty()) {
    hdf5::write_array(group, "channel_rms", profile.channel_rms, "channel", "stage");
  }
}

void write_stage(hid_t root, const StageRecord& stage, bool several_sequences) {
  const hdf5::Handle group = hdf5::make_group(root, layout::group_of(stage, several_sequences));
  hdf5::write_attribute(group.get(), "verdict", verdict(stage.pass));
  hdf5::write_attribute(group.get(), "units", std::string("those of the stage"));
  hdf5::write_attribute(group.get(), "dimensions", fmt::format("{}", fmt::join(stage.dimensions, ",")));
  if (!stage.extents.empty()) hdf5::write_array(group.get(), "extents", stage.extents, "dimension", "elements");
  write_profile(group.get(), stage);
  if (stage.distribution && !stage.distribution->histogram.empty()) {
    const hdf5::Handle counts =
        hdf5::write_array(group.get(), "histogram", stage.distribution->histogram, "decade", "elements");
    hdf5::write_attribute(counts.get(), "first_decade", std::int64_t{kHistogramFirstDecade});
    hdf5::write_attribute(counts.get(), "of", std::string("|error| / RMS of the reference"));
  }
  if (!stage.worst.empty()) hdf5::write_table(group.get(), worst_table(stage));
  if (stage.reference_tensor) write_kept(group.get(), "reference", stage, *stage.reference_tensor);
  if (stage.candidate_tensor) write_kept(group.get(), "candidate", stage, *stage.candidate_tensor);
}

void write_comparison(hid_t root, const ComparisonRecord& comparison) {
  const hdf5::Handle group = hdf5::make_group(root, "comparison");
  hdf5::write_attribute(group.get(), "verdict", verdict(comparison.pass));
  hdf5::write_attribute(group.get(), "first_divergent_stage", comparison.first_divergent_stage);
  hdf5::write_attribute(group.get(), "first_failing_stage_in_replay", comparison.first_failing_stage_in_replay);
  hdf5::write_attribute(group.get(), "tokens", comparison.tokens);
  write_attributes(group.get(), comparison.tolerance);
  hdf5::write_array(group.get(), "sequence_starts", comparison.sequence_starts, "boundary", "row");
  for (const auto& table : comparison_tables(comparison)) hdf5::write_table(group.get(), table);
  const bool several = comparison.sequence_starts.size() > 2;
  for (const auto& stage : comparison.stages) {
    if (!stage.missing) write_stage(root, stage, several);
  }
}

}  // namespace

std::vector<std::byte> to_hdf5(const Report& report) {
  const hdf5::FileImage file;
  hdf5::write_attribute(file.root(), "format", layout::kFormat);
  hdf5::write_attribute(file.root(), "schema_version", std::int64_t{kSchemaVersion});
  hdf5::write_attribute(file.root(), "verb", report.verb);
  hdf5::write_attribute(file.root(), "verdict", verdict(report.pass));
  write_attributes(hdf5::make_group(file.root(), "run").get(), report.run);
  write_attributes(hdf5::make_group(file.root(), "checkpoint").get(), report.checkpoint);
  for (const auto& side : report.sides) {
    const hdf5::Handle group = hdf5::make_group(file.root(), "sides/" + side.role);
    hdf5::write_attribute(group.get(), "head", side.head);
    hdf5::write_attribute(group.get(), "dtype", side.dtype);
    hdf5::write_table(group.get(),
                      table_of("conventions", "a convention and where its value came from", side.conventions));
  }
  if (report.comparison) write_comparison(file.root(), *report.comparison);
  if (!report.findings.empty()) hdf5::write_table(file.root(), table_of("findings", "a finding", report.findings));
  if (!report.tables.empty()) {
    const hdf5::Handle group = hdf5::make_group(file.root(), "tables");
    for (const auto& table : report.tables) hdf5::write_table(group.get(), table);
  }
  return file.bytes();
}

void write_report(const std::filesystem::path& path, const Report& report) { write_atomically(path, to_hdf5(report)); }

}  // namespace mtpcheck::reports
