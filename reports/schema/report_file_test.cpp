#include "reports/schema/report_file.h"

#include <gtest/gtest.h>
#include <hdf5.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "reference/tensor/error.h"
#include "reports/schema/json.h"
#include "reports/schema/sample_report.h"

namespace mtpcheck::reports {
namespace {

std::filesystem::path file_in_temp(const std::string& name) {
  return std::filesystem::temp_directory_path() / ("mtpcheck_report_" + name + ".h5");
}

TEST(ReportFile, ComesBackAsItWasWritten) {
  const Report written = sample_report();
  write_report(file_in_temp("round"), written);
  const Report read = read_report(file_in_temp("round"));
  EXPECT_EQ(to_json(read).dump(1), to_json(written).dump(1));
  EXPECT_EQ(read.comparison->stages[1].candidate_tensor->bytes, written.comparison->stages[1].candidate_tensor->bytes);
  EXPECT_EQ(read.comparison->stages[1].profile.token_rms, written.comparison->stages[1].profile.token_rms);
  EXPECT_EQ(read.run.config, written.run.config);
}

TEST(ReportFile, SameReportGivesTheSameBytes) { EXPECT_EQ(to_hdf5(sample_report()), to_hdf5(sample_report())); }

TEST(ReportFile, NonFiniteErrorsSurvive) {
  Report report = sample_report();
  report.comparison->stages[0].cumulative.relative_l2 = std::numeric_limits<double>::infinity();
  report.comparison->stages[0].cumulative.rms = std::numeric_limits<double>::quiet_NaN();
  write_report(file_in_temp("nan"), report);
  const Report read = read_report(file_in_temp("nan"));
  EXPECT_TRUE(std::isinf(read.comparison->stages[0].cumulative.relative_l2));
  EXPECT_TRUE(std::isnan(read.comparison->stages[0].cumulative.rms));
  EXPECT_TRUE(to_json(report)["stages"][0]["relative_l2"].is_number());
  EXPECT_NE(to_json(report).dump().find("\"relative_l2\":null"), std::string::npos);
}

TEST(ReportFile, RefusesWhatIsNoReport) {
  const auto path = file_in_temp("text");
  std::ofstream(path) << "no report";
  EXPECT_THROW(read_report(path), Error);
  EXPECT_THROW(read_report(file_in_temp("absent")), Error);
  auto bytes = to_hdf5(sample_report());
  bytes.resize(bytes.size() / 2);
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  try {
    read_report(path);
    FAIL() << "half a file was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::input);
  }
}

/// A file of the first version, as mtpcheck 0.1.0 wrote it: whatever the schema becomes, it stays readable.
TEST(ReportFile, ReadsAStoredFileOfVersionOne) {
  const Report report = read_report(MTPCHECK_GOLDEN_DIR "/reports/schema-1.h5");
  EXPECT_EQ(report.schema_version, 1);
  EXPECT_EQ(report.verb, "compare");
  EXPECT_FALSE(report.pass);
  EXPECT_EQ(report.run.tool_version, "0.1.0");
  EXPECT_EQ(report.checkpoint.files, 3);
  ASSERT_EQ(report.sides.size(), 2u);
  EXPECT_EQ(report.sides[1].head, "reference f32");
  ASSERT_TRUE(report.comparison);
  const ComparisonRecord& comparison = *report.comparison;
  EXPECT_EQ(comparison.first_failing_stage_in_replay, "q_rope");
  EXPECT_EQ(comparison.tokens, 6);
  ASSERT_EQ(comparison.stages.size(), 6u);
  const StageRecord& rope = comparison.stages[2];
  EXPECT_EQ(rope.name, "q_rope");
  EXPECT_EQ(rope.dimensions, (std::vector<std::string>{"T", "N", "r"}));
  EXPECT_DOUBLE_EQ(rope.cumulative.rms, 1.487584619636108);
  EXPECT_EQ(rope.cumulative.noise_samples, 1);  // a column that came later
  EXPECT_FALSE(rope.replay->pass);
  EXPECT_EQ(rope.likely_cause, "the candidate matches interleaved RoPE");
  EXPECT_EQ(rope.worst.size(), 10u);
  EXPECT_EQ(rope.profile.token_rms.size(), 6u);
  ASSERT_TRUE(rope.candidate_tensor);
  EXPECT_EQ(rope.candidate_tensor->bytes.size(), 4u * 6 * 4 * 16);
  EXPECT_TRUE(comparison.stages[4].selection);
  EXPECT_TRUE(comparison.stages[5].logits);
}

void set_version(const std::filesystem::path& path, std::int64_t version) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t attribute = H5Aopen(file, "schema_version", H5P_DEFAULT);
  H5Awrite(attribute, H5T_NATIVE_INT64, &version);
  H5Aclose(attribute);
  H5Fclose(file);
}

TEST(ReportFile, RefusesANewerSchemaByItsNumber) {
  const auto path = file_in_temp("newer");
  write_report(path, sample_report());
  set_version(path, kSchemaVersion + 1);
  try {
    read_report(path);
    FAIL() << "a newer schema was read";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(std::to_string(kSchemaVersion + 1)), std::string::npos);
  }
}

TEST(ReportJson, HasTheKeysThatMachinesRead) {
  const auto json = to_json(sample_report());
  EXPECT_EQ(json["verdict"], "fail");
  EXPECT_EQ(json["first_divergent_stage"], "q_rope");
  EXPECT_EQ(json["stages"][0]["name"], "enorm");
  EXPECT_EQ(json["stages"][0]["verdict"], "pass");
  EXPECT_DOUBLE_EQ(json["stages"][1]["max_abs"].get<double>(), 0.5);
  EXPECT_EQ(json["stages"][1]["replay"]["verdict"], "fail");
  EXPECT_EQ(json["stages"][1]["likely_cause"], "the candidate matches interleaved RoPE");
  EXPECT_EQ(json["unmatched"][0]["name"], "my_q");
}

}  // namespace
}  // namespace mtpcheck::reports
