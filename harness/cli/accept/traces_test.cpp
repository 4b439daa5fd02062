// What accept makes of traces: top-N ones, ones that cannot be, and a head that has only one precision.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/cli/accept/short_trace.h"
#include "harness/cli/tool.h"

namespace mtpcheck::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

TEST(AcceptVerb, TopNTracesGiveBoundsAroundTheTruth) {
  const ScratchDirectory scratch;
  const auto parts = beginning_of(kNatural, 24);
  const auto whole = write_whole(scratch, "whole.safetensors", parts);
  const auto top = write_top(scratch, "top.safetensors", parts, 3);
  const auto file = scratch.path() / "a.json";
  ASSERT_EQ(run_tool("accept " + kBf16 + " --traces " + whole + " --json " + file.string()).exit_code, 0);
  const double truth = read_json(file)["depths"][0]["expected"]["rate"];
  const ToolResult result = run_tool("accept " + kBf16 + " --traces " + top + " --json " + file.string());
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr(", between "));
  const auto bounds = read_json(file)["depths"][0]["expected"]["bounds"];
  EXPECT_LT(bounds[0], truth);
  EXPECT_GT(bounds[1], truth);
}

TEST(AcceptVerb, BadTracesExitThreeWithSequenceAndPosition) {
  const ScratchDirectory scratch;
  const TraceParts good = beginning_of(kNatural, 16);
  const auto refused = [&](const std::string& path, const std::string& position) {
    const ToolResult result = run_tool("accept " + kBf16 + " --traces " + kNatural + " " + path);
    EXPECT_EQ(result.exit_code, 3) << result.output;
    EXPECT_THAT(result.output, AllOf(HasSubstr(path), HasSubstr(position)));
  };
  TraceParts nan = good;
  nan.logits[7 * nan.vocabulary + 11] = std::nanf("");
  refused(write_whole(scratch, "nan.safetensors", nan), "target_logits at position 7, token 11 is nan");
  TraceParts token = good;
  token.ids[5] = 288;
  refused(write_whole(scratch, "token.safetensors", token), "input_ids[5] is 288");
  TraceParts narrow = good;
  narrow.vocabulary = 256;
  narrow.logits.resize(narrow.tokens() * 256);
  refused(write_whole(scratch, "narrow.safetensors", narrow), "vocabulary has 256 tokens, the head's 288");
  TraceParts shifted = good;
  for (auto& position : shifted.positions) ++position;
  refused(write_whole(scratch, "shifted.safetensors", shifted), "positions[0] is 1");
  TraceParts gap = good;
  for (std::size_t i = 9; i < gap.tokens(); ++i) ++gap.positions[i];
  refused(write_whole(scratch, "gap.safetensors", gap), "positions[9] is 10 after 8");
  refused(write_top(scratch, "much.safetensors", good, 4, 0.25F), "the probabilities at position 0 sum to");
  refused(write_top(scratch, "all.safetensors", good, 4, -0.0005F), "remain, 1 was expected");
}

// The CUDA heads compute in bf16 alone, which nobody should have to say.
TEST(AcceptVerb, CudaHeadsNeedNoDtype) {
  const ScratchDirectory scratch;
  const auto trace = write_whole(scratch, "short.safetensors", beginning_of(kNatural, 4));
  const ToolResult accepted = run_tool("accept " + kBf16 + " --head cuda-emulated --traces " + trace);
  const ToolResult ran = run_tool("run " + kBf16 + " --head cuda-emulated --inputs " + trace + " --out " +
                                  (scratch.path() / "dump.safetensors").string());
#ifdef MTPCHECK_EMULATED_HEAD
  EXPECT_EQ(accepted.exit_code, 0) << accepted.output;
  EXPECT_THAT(accepted.output, HasSubstr("cuda-emulated bf16 on 1 natural traces, 3 chains"));
  EXPECT_EQ(ran.exit_code, 0) << ran.output;
#else
  EXPECT_EQ(accepted.exit_code, 4) << accepted.output;
  EXPECT_EQ(ran.exit_code, 4) << ran.output;
#endif
}

}  // namespace
}  // namespace mtpcheck::cli
