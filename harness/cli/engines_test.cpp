// What one line costs: vLLM zeroes the embedding of a row at position 0, SGLang does not. docs/engines.md has the
// figures.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/checkpoint/scratch_directory.h"
#include "harness/cli/tool.h"

namespace mtpcheck::cli {
namespace {

using Json = nlohmann::json;

const std::string kTiny = MTPCHECK_GOLDEN_DIR "/tiny-hy4";

/// Runs the tool, which must end with `exit_code`, and gives what it wrote as JSON.
Json run_for_json(const std::string& arguments, int exit_code) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "out.json";
  const ToolResult result = run_tool(arguments + " --json " + path.string());
  EXPECT_EQ(result.exit_code, exit_code) << result.output;
  std::ifstream file(path);
  return Json::parse(file);
}

/// tiny-hy4 was trained half-split, so both sides are told so; all else is the presets'.
Json compared(const std::string& candidate, int exit_code) {
  return run_for_json("compare " + kTiny + "/checkpoint-bf16 --inputs " + kTiny +
                          "/traces/passage-00.safetensors --candidate reference --preset vllm --rope half-split " +
                          candidate,
                      exit_code);
}

/// Figures of the two presets on the traces of a folder.
std::vector<Json> accepted(const std::string& folder) {
  const Json json =
      run_for_json("accept " + kTiny + "/checkpoint-bf16 --traces " + kTiny + "/" + folder +
                       "/*.safetensors --head reference --presets vllm,sglang --rope half-split --depth 3",
                   0);
  return json.at("all_series").get<std::vector<Json>>();
}

/// In replay: on the inputs that the candidate itself had. Of choices the rows are counted that nothing excuses.
bool passes_in_replay(const Json& stage) {
  const Json& replay = stage.at("replay");
  return replay.contains("selection") ? replay.at("selection").at("unexcused_rows") == 0
                                      : replay.at("verdict") == "pass";
}

const Json& depth_of(const Json& series, std::size_t depth) { return series.at("depths").at(depth - 1); }

double gain(const std::vector<Json>& series, std::size_t depth) {
  return depth_of(series.at(1), depth).at("expected").at("rate").get<double>() -
         depth_of(series.at(0), depth).at("expected").at("rate").get<double>();
}

TEST(PresetSglang, DivergesFromVllmInTheFirstStageAndInNoOtherOnTheSameInputs) {
  const Json json = compared("--candidate-preset sglang --candidate-rope half-split", 1);
  EXPECT_EQ(json.at("first_divergent_stage"), "embed_masked");
  for (const auto& stage : json.at("stages")) {
    EXPECT_EQ(passes_in_replay(stage), stage.at("name") != "embed_masked") << stage.at("name");
    const bool reads_the_embedding = stage.at("name") != "hnorm";
    EXPECT_EQ(stage.at("cumulative_verdict"), reads_the_embedding ? "fail" : "pass") << stage.at("name");
  }
}

TEST(PresetSglang, TheMaskIsAllThatDiffersOnThisHead) {
  EXPECT_EQ(compared("--candidate-preset sglang --candidate-rope half-split", 1).at("stages"),
            compared("--no-candidate-position-zero-mask", 1).at("stages"));
  EXPECT_EQ(
      compared("--candidate-preset sglang --candidate-rope half-split --candidate-position-zero-mask", 0).at("verdict"),
      "pass");
}

TEST(PresetSglang, CostsNoGreedyDraftOfAGeneratedTextAndLessThanATenthOfAPointElsewhere) {
  const auto greedy = accepted("generated/greedy");
  for (std::size_t depth = 1; depth <= 3; ++depth) {
    EXPECT_EQ(depth_of(greedy.at(0), depth).at("greedy").at("accepted"),
              depth_of(greedy.at(1), depth).at("greedy").at("accepted"))
        << depth;
    EXPECT_LT(std::abs(gain(greedy, depth)), 1e-3) << depth;
    EXPECT_NE(gain(greedy, depth), 0) << depth;
  }
  const auto natural = accepted("traces");  // these begin at position 0
  EXPECT_EQ(depth_of(natural.at(0), 1).at("greedy").at("accepted"),
            depth_of(natural.at(1), 1).at("greedy").at("accepted"));
  EXPECT_LT(std::abs(gain(natural, 1)), 1e-3);
  EXPECT_GT(std::abs(gain(natural, 1)), 1e-4);
}

}  // namespace
}  // namespace mtpcheck::cli
