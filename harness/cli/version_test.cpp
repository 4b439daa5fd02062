#include "reports/version.h"

#include <gtest/gtest.h>

#include <string>

#include "harness/cli/tool.h"
#include "harness/loading/rules.h"

namespace mtpcheck::cli {
namespace {

TEST(Version, ListsTheLoadersWithTheirEnginesVersions) {
  std::string expected = "mtpcheck " + std::string(version()) + "\n";
  for (const LoaderRules& rules : loaders()) {
    expected += "loader " + std::string(rules.engine) + " " + std::string(rules.version) + "\n";
  }
  const ToolResult result = run_tool("--version");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output, expected);
  EXPECT_NE(expected.find("loader vllm 0.33.0\n"), std::string::npos);
}

TEST(Version, AnUnknownLoaderIsToldTheKnownOnes) {
  const std::string checkpoint = MTPCHECK_GOLDEN_DIR "/tiny-hy4/checkpoint-split";
  for (const char* verb : {"audit", "run --tokens 2 --out /dev/null --weights as-loaded"}) {
    const ToolResult result = run_tool(std::string(verb) + " --loader vllm@0.1 " + checkpoint);
    EXPECT_EQ(result.exit_code, 2) << verb;
    EXPECT_NE(result.output.find("vllm@0.33.0"), std::string::npos) << result.output;
  }
}

}  // namespace
}  // namespace mtpcheck::cli
