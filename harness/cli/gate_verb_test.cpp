// The gate verb as a user meets it: what it refuses to write.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "harness/checkpoint/scratch_directory.h"
#include "harness/cli/tool.h"
#include "reports/schema/report_file.h"
#include "reports/schema/sample_report.h"

namespace mtpcheck::cli {
namespace {

class GateVerb : public ::testing::Test {
 protected:
  /// An update of a baseline from `report`, with options that are told.
  ToolResult update(const reports::Report& report, const std::string& options) const {
    const std::string file = (folder_.path() / "report.h5").string();
    reports::write_report(file, report);
    return run_tool("gate " + file + " --baseline " + baseline_.string() + " --update " + options);
  }

  ScratchDirectory folder_;
  std::filesystem::path baseline_ = folder_.path() / "agreed.gate";
};

TEST_F(GateVerb, RefusesAHeadroomThatIsNoShare) {
  for (const char* headroom : {"nan", "inf", "-0.1"}) {
    EXPECT_EQ(update(reports::sample_report(), std::string("--headroom=") + headroom).exit_code, 2) << headroom;
  }
  EXPECT_FALSE(std::filesystem::exists(baseline_));
  EXPECT_EQ(update(reports::sample_report(), "--headroom=0").exit_code, 0);
}

TEST_F(GateVerb, RefusesAReasonOfSeveralLines) {
  const auto result = update(reports::sample_report(), "--reason 'once\nstage q_rope cumulative <= 1e9 # twice'");
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_FALSE(std::filesystem::exists(baseline_));
}

TEST_F(GateVerb, WritesNoLimitThatEverythingPasses) {
  reports::Report report = reports::sample_report();
  report.comparison->stages[0].missing = true;
  const auto result = update(report, "");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_NE(result.output.find("stage enorm cumulative"), std::string::npos) << result.output;
  EXPECT_FALSE(std::filesystem::exists(baseline_));
}

}  // namespace
}  // namespace mtpcheck::cli
