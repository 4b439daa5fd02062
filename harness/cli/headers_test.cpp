#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "harness/checkpoint/checkpoint.h"
#include "harness/checkpoint/scratch_directory.h"
#include "harness/cli/tool.h"

namespace mtpcheck::cli {
namespace {

using ::testing::HasSubstr;

const std::string kMxfp8 = MTPCHECK_GOLDEN_DIR "/tiny-hy4/checkpoint-mxfp8";

TEST(HeadersVerb, TheDocumentStandsForTheCheckpoint) {
  const ScratchDirectory scratch;
  const std::string out = (scratch.path() / "headers.json").string();
  ASSERT_EQ(run_tool("headers " + kMxfp8 + " --out " + out).exit_code, 0);
  const Checkpoint read = open_checkpoint(out);
  EXPECT_TRUE(read.headers_only);
  EXPECT_EQ(identity_of(read), identity_of(open_checkpoint(kMxfp8)));
  const ToolResult printed = run_tool("headers " + kMxfp8);
  EXPECT_EQ(printed.exit_code, 0);
  const std::string again = scratch.write("printed.json", printed.output).string();
  EXPECT_EQ(identity_of(open_checkpoint(again)), identity_of(read));
  EXPECT_EQ(run_tool("headers " + out).output, printed.output) << "a headers file is a checkpoint";
}

TEST(HeadersVerb, AHeadDoesNotRunOnHeaders) {
  const ScratchDirectory scratch;
  const std::string out = (scratch.path() / "headers.json").string();
  ASSERT_EQ(run_tool("headers " + kMxfp8 + " --out " + out).exit_code, 0);
  const ToolResult result = run_tool("run " + out + " --tokens 2 --out " + (scratch.path() / "dump").string());
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.output, HasSubstr("headers only"));
}

TEST(HeadersVerb, UnreadableCheckpointsAreRefused) {
  const ScratchDirectory scratch;
  scratch.write("config.json", "{}");
  scratch.write("model.safetensors", "nonsense");
  const ToolResult result = run_tool("headers " + scratch.path().string());
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.output, HasSubstr("a header length of"));
  EXPECT_EQ(run_tool("headers " + kMxfp8 + " > /dev/full").exit_code, 4);
}

}  // namespace
}  // namespace mtpcheck::cli
