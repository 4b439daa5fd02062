#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/checkpoint/scratch_directory.h"
#include "harness/cli/tool.h"
#include "reports/schema/report_file.h"
#include "reports/schema/sample_report.h"

namespace mtpcheck::cli {
namespace {

TEST(ReportVerb, ShowsConvertsAndCompares) {
  const ScratchDirectory folder;
  const std::string file = (folder.path() / "a.h5").string();
  reports::write_report(file, reports::sample_report());
  EXPECT_NE(run_tool("report show " + file).output.find("first divergent stage q_rope"), std::string::npos);
  const auto printed = run_tool("report json " + file);
  EXPECT_EQ(nlohmann::json::parse(printed.output)["verdict"], "fail");
  EXPECT_EQ(run_tool("report html " + file).exit_code, 0);
  EXPECT_TRUE(std::ifstream(file + ".html").good());
  EXPECT_EQ(run_tool("report diff " + file + " " + file).exit_code, 0);
  reports::Report worse = reports::sample_report();
  worse.comparison->stages[0].pass = false;
  const std::string other = (folder.path() / "b.h5").string();
  reports::write_report(other, worse);
  EXPECT_EQ(run_tool("report diff " + file + " " + other).exit_code, 1);
  const std::string out = (folder.path() / "tables").string();
  EXPECT_EQ(run_tool("report export " + file + " --out " + out).exit_code, 0);
  EXPECT_TRUE(std::ifstream(out + "/cumulative.csv").good());
}

TEST(ReportVerb, SaysWhatIsNoReport) {
  const auto result = run_tool("report show /nowhere.h5");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_NE(result.output.find("/nowhere.h5"), std::string::npos);
  EXPECT_EQ(run_tool("report").exit_code, 2);
}

}  // namespace
}  // namespace mtpcheck::cli
