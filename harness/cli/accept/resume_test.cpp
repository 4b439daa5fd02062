// Sweeps that are interrupted, continued, extended, and not mistaken for one another.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "harness/acceptance/study/series.h"
#include "harness/checkpoint/scratch_directory.h"
#include "harness/cli/accept/short_trace.h"
#include "harness/cli/tool.h"
#include "reports/schema/json.h"
#include "reports/schema/report_file.h"

namespace mtpcheck::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

// A sweep of eighteen groups, one report's write each.
std::string long_sweep(const fs::path& report) {
  return "accept " + kBf16 + " --also " + kTiny + "/checkpoint-fp8-block " + kTiny + "/checkpoint-mxfp8 --traces " +
         kNatural + " " + kGreedy + " " + kSampled +
         " --depth 2 --presets transformers,vllm --temperature 1,0.7 --simulate --draft-cost 0.1 "
         "--token-classes " +
         kTiny + "/token-classes.json --report " + report.string();
}

// Starts the tool, and kills it with the signal that nothing can catch as soon as the report is there.
void interrupt_after_the_first_group(const std::string& arguments, const fs::path& report) {
  const std::string command = std::string("exec ") + MTPCHECK_TOOL + " " + arguments + " >/dev/null 2>&1";
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  for (int i = 0; i < 60000 && !fs::exists(report); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(fs::exists(report));
  ASSERT_TRUE(WIFSIGNALED(status)) << "the sweep was over before it could be interrupted";
}

// Marks a series that is done: a figure that no computation would give.
std::string poison_the_first_series(const fs::path& path) {
  auto report = reports::read_report(path);
  for (auto& table : report.tables) {
    if (table.name != "acceptance") continue;
    for (auto& column : table.columns) {
      if (column.name == "greedy_rate") std::get<std::vector<double>>(column.values).front() = 0.123;
    }
  }
  reports::write_report(path, report);
  return series_names(report).front();
}

TEST(AcceptVerb, AnInterruptedSweepGoesOnAndEndsAsAnUninterruptedOne) {
  const ScratchDirectory scratch;
  const fs::path whole = scratch.path() / "whole.h5";
  const fs::path broken = scratch.path() / "broken.h5";
  ASSERT_EQ(run_tool(long_sweep(whole)).exit_code, 0);
  interrupt_after_the_first_group(long_sweep(broken), broken);
  const auto expected = reports::to_json(reports::read_report(whole))["tables"];
  const auto before = series_names(reports::read_report(broken));
  ASSERT_LT(before.size(), series_names(reports::read_report(whole)).size());
  ASSERT_GT(before.size(), 0U);

  const fs::path poisoned = scratch.path() / "poisoned.h5";
  fs::copy_file(broken, poisoned);
  const ToolResult resumed = run_tool(long_sweep(broken));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_EQ(reports::to_json(reports::read_report(broken))["tables"], expected);

  // What was done is taken as it is: a figure that was changed in the file comes back, the rest is as it should be.
  const std::string series = poison_the_first_series(poisoned);
  const ToolResult again = run_tool(long_sweep(poisoned));
  ASSERT_EQ(again.exit_code, 0);
  EXPECT_THAT(again.output, Not(HasSubstr(series + " on "))) << "printed again";
  auto tables = reports::to_json(reports::read_report(poisoned))["tables"];
  EXPECT_EQ(tables["acceptance"][0]["greedy_rate"].get<double>(), 0.123);
  tables["acceptance"][0]["greedy_rate"] = expected["acceptance"][0]["greedy_rate"];
  EXPECT_EQ(tables, expected);
}

TEST(AcceptVerb, OnlyTheSameSweepGoesOn) {
  const ScratchDirectory scratch;
  const std::string sweep =
      "accept " + kBf16 + " --traces " + kNatural + " --report " + (scratch.path() / "a.h5").string();
  EXPECT_THAT(run_tool(sweep).output, Not(HasSubstr("taken from")));
  EXPECT_THAT(run_tool(sweep).output, HasSubstr("reference f32: taken from"));
  // More of a sweep takes what is there; another seed, depth, reading of the files or convention does not.
  EXPECT_THAT(run_tool(sweep + " --dtype f32,f64").output,
              AllOf(HasSubstr("reference f32: taken from"), HasSubstr("reference f64 on 1")));
  for (const char* other : {" --seed 7", " --depth 2", " --weights as-loaded", " --rope interleaved",
                            " --sampling greedy", " --draft-cost 0.1", " --restart"}) {
    EXPECT_THAT(run_tool(sweep + other).output, Not(HasSubstr("taken from"))) << other;
  }
}

}  // namespace
}  // namespace mtpcheck::cli
