// Numbers that no option can mean: below zero where they would wrap, not finite, out of bounds.
#include <gtest/gtest.h>

#include <string>

#include "harness/cli/tool.h"
#include "reference/model/stages.h"

namespace mtpcheck::cli {
namespace {

const std::string kSound = MTPCHECK_GOLDEN_DIR "/tiny-hy4/checkpoint-bf16";

void expect_usage_error(const std::string& arguments) {
  const ToolResult result = run_tool(arguments);
  EXPECT_EQ(result.exit_code, 2) << arguments << "\n" << result.output;
}

TEST(RefusedNumbers, BelowZero) {
  const std::string compare = "compare " + kSound + " --candidate reference ";
  for (const char* options : {"--tokens -1", "--tokens 2 --seed -1", "--tokens 2 --threads -5"}) {
    expect_usage_error(compare + options);
  }
  const std::string run = "run " + kSound + " --out /dev/null ";
  for (const char* options : {"--tokens -1", "--tokens 2 --seed -1", "--tokens 2 --mtp-layer -1"}) {
    expect_usage_error(run + options);
  }
  expect_usage_error("audit " + kSound + " --tp-size -1");
  expect_usage_error("audit " + kSound + " --tp-rank -1");
  const std::string accept =
      "accept " + kSound + " --traces " MTPCHECK_GOLDEN_DIR "/tiny-hy4/traces/passage-00.safetensors ";
  for (const char* options : {"--top-k -1", "--top-k 0,-1", "--seed -1"}) expect_usage_error(accept + options);
}

TEST(RefusedNumbers, TolerancesOutOfRange) {
  for (const char* option : {"--k", "--floor-ulps", "--row-factor"}) {
    for (const char* value : {"nan", "inf", "-1"}) {
      expect_usage_error("compare " + kSound + " --candidate reference --tokens 2 " + option + " " + value);
    }
  }
  expect_usage_error("compare " + kSound + " --candidate reference --tokens 2 --row-factor 0");
}

TEST(RefusedNumbers, NothingLeftToCompare) {
  std::string stages;
  for (const StageInfo& stage : all_stages()) stages += (stages.empty() ? "" : ",") + std::string(stage.name);
  const ToolResult result = run_tool("compare " + kSound + " --candidate reference --tokens 2 --without " + stages);
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_NE(result.output.find("nothing is left to compare"), std::string::npos) << result.output;
}

}  // namespace
}  // namespace mtpcheck::cli
