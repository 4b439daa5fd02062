// Options that would have no effect are refused: whoever gives one believes that it has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "harness/cli/tool.h"

namespace mtpcheck::cli {
namespace {

using ::testing::HasSubstr;

void refused(const std::string& arguments, const std::string& option) {
  const ToolResult result = run_tool(arguments);
  EXPECT_EQ(result.exit_code, 2) << arguments << "\n" << result.output;
  EXPECT_THAT(result.output, HasSubstr(option)) << arguments;
}

TEST(IdleOptions, WhatChoosesFromADumpNeedsADump) {
  const std::string compare = "compare " + kTiny + "/checkpoint-split --tokens 2 --candidate reference ";
  refused(compare + "--mapping " + kTiny + "/faults.json", "--mapping");
  refused(compare + "--dump-prefix draft.", "--dump-prefix");
}

TEST(IdleOptions, WhatARunTakesIsNotForADump) {
  const std::string compare =
      "compare " + kTiny + "/checkpoint-split --tokens 2 --candidate dump:" + kTiny + "/traces/passage-00.h5 ";
  refused(compare + "--candidate-weights as-loaded", "--candidate-weights");
  refused(compare + "--threads 2", "--threads");
}

TEST(IdleOptions, ALoaderNeedsWeightsAsLoaded) {
  refused("compare " + kTiny + "/checkpoint-split --tokens 2 --candidate reference --loader vllm", "--loader");
  refused("accept " + kTiny + "/checkpoint-split --traces " + kTiny + "/traces/passage-00.safetensors --loader vllm",
          "--loader");
}

TEST(IdleOptions, DigestsNeedBytesAndALoader) {
  refused("audit " + kTiny + "/checkpoint-split --headers-only --digest", "--digest");
  refused("audit " + kTiny + "/checkpoint-split --loader none --digest", "--digest");
}

TEST(IdleOptions, AnUnknownVerbIsNamedBesideTheKnownOnes) {
  const ToolResult result = run_tool("nope");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("nope: no such verb; there are accept, audit, headers"));
}

}  // namespace
}  // namespace mtpcheck::cli
