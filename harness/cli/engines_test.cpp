// Several engines on one command line: what each makes of the files; and what the one line costs in which their heads
// differ: vLLM zeroes the embedding of a row at position 0, SGLang does not. docs/engines.md has the figures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/checkpoint/scratch_directory.h"
#include "harness/cli/tool.h"

namespace mtpcheck::cli {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

/// Runs the tool, which must end with `exit_code`, and gives what it wrote as JSON.
Json run_for_json(const std::string& arguments, int exit_code) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "out.json";
  const ToolResult result = run_tool(arguments + " --json " + path.string());
  EXPECT_EQ(result.exit_code, exit_code) << result.output;
  return read_json(path);
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

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A copy of tiny-hy4's split checkpoint that lost two tensors: hnorm, and up_proj of expert 5.
class BrokenExport : public testing::Test {
 protected:
  BrokenExport() {
    const std::string half = path("half").string();
    EXPECT_EQ(run_tool("faults inject " + kTiny + "/checkpoint-split --fault up-half-missing --out " + half).exit_code,
              0);
    EXPECT_EQ(run_tool("faults inject " + half + " --fault norm-missing --out " + broken()).exit_code, 0);
  }

  std::filesystem::path path(const std::string& name) const { return scratch_.path() / name; }
  std::string broken() const { return path("broken").string(); }

 private:
  ScratchDirectory scratch_;
};

TEST_F(BrokenExport, IsToldEngineByEngine) {
  const ToolResult result = run_tool("audit " + broken() + " --loader vllm,sglang");
  EXPECT_EQ(result.exit_code, 1);
  for (const char* line : {
           "parameter                           vllm                sglang              vllm / sglang\n",
           "hnorm                               unassigned, raises  unassigned, silent  unwritten in both\n",
           "mlp.experts.*.{gate_proj, up_proj}  partial, silent     partial, silent     unwritten in both\n",
           "18 others                           loaded              loaded              equal\n",
           "4 others                            loaded              loaded              permuted\n",
           "error unassigned  hnorm                            raises  silent\n",
           "error partial  mlp.experts.*.{gate_proj, up_proj}  silent  silent\n",
           "vllm 0.33.0 and sglang 0.5.23: no head: vllm 0.33.0 raises after the load\n",
           "repro: mtpcheck audit",
       }) {
    EXPECT_THAT(result.output, HasSubstr(line));
  }
}

TEST_F(BrokenExport, GoesIntoEveryFormat) {
  const Json json = run_for_json("audit " + broken() + " --loader sglang,vllm@0.33.0 --digest --junit " +
                                     path("a.xml").string() + " --report " + path("a.h5").string(),
                                 1);
  EXPECT_EQ(json.at("verdict"), "fail");
  ASSERT_EQ(json.at("audits").size(), 2U);
  EXPECT_EQ(json.at("audits").at(0).at("loader"), "sglang 0.5.23");
  EXPECT_TRUE(json.at("audits").at(1).at("params").at(0).contains("sha256"));
  const Json& comparison = json.at("comparison");
  EXPECT_EQ(comparison.at("engines"), Json::parse(R"(["sglang 0.5.23", "vllm 0.33.0"])"));
  EXPECT_EQ(comparison.at("heads").at(0).at("verdict"), "no head");
  for (const auto& defect : comparison.at("defects")) {
    EXPECT_EQ(defect.at("engines").at(0).at("verdict"), "silent") << defect;
    EXPECT_EQ(defect.at("engines").at(0).at("finding").at("id"), defect.at("id"));
  }
  EXPECT_EQ(comparison.at("defects").size(), 2U);
  bool mapped = false;
  for (const auto& row : comparison.at("parameters")) {
    if (row.at("name") != "self_attn.{q_a_proj, kv_a_proj_with_mqa}") continue;
    mapped = true;
    EXPECT_EQ(row.at("engines").at(0).at("parameters").at(0),
              "model.decoder.self_attn.fused_qkv_a_proj_with_mqa.weight");
    EXPECT_EQ(row.at("engines").at(1).at("parameters").at(0),
              "model.layers.4.mtp_block.self_attn.fused_qkv_a_proj.weight");
    EXPECT_EQ(row.at("relations").at(0).at("relation"), "equal");
  }
  EXPECT_TRUE(mapped);
  const std::string junit = text_of(path("a.xml"));
  for (const char* suite : {"audit sglang 0.5.23", "audit vllm 0.33.0", "audit heads"}) {
    EXPECT_THAT(junit, HasSubstr(suite));
  }
  ASSERT_EQ(run_tool("report html " + path("a.h5").string() + " --out " + path("a.html").string()).exit_code, 0);
  const std::string page = text_of(path("a.html"));
  for (const char* table : {"engine_parameters", "engine_relations", "engine_defects", "engine_heads"}) {
    EXPECT_THAT(page, HasSubstr(table));
  }
}

TEST(TwoLoaders, HoldTheSameHeadOfTinyHy4WithAndWithoutItsData) {
  for (const char* format : {"bf16", "split", "mxfp8"}) {
    for (const char* bytes : {"", " --headers-only"}) {
      const ToolResult result = run_tool("audit " + kTiny + "/checkpoint-" + format + bytes +
                                         " --loader vllm,sglang@0.5.23 --fail-on warning");
      EXPECT_EQ(result.exit_code, 0) << result.output;
      EXPECT_THAT(result.output, HasSubstr("vllm 0.33.0 and sglang 0.5.23: same head\n"));
    }
  }
}

TEST(TwoLoaders, OneRaisesAtFp8Blocks) {
  const ToolResult result = run_tool("audit " + kTiny + "/checkpoint-fp8-block --loader vllm,sglang");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, HasSubstr("no head: sglang 0.5.23 raises at model.mtp_layers.0.self_attn.indexer.wk"));
  EXPECT_EQ(run_tool("audit " + kTiny + "/checkpoint-fp8-block --loader vllm").exit_code, 0);
}

}  // namespace
}  // namespace mtpcheck::cli
