// The figures that accept reports, and what it sweeps over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "harness/checkpoint/scratch_directory.h"
#include "harness/cli/accept/short_trace.h"
#include "harness/cli/tool.h"

namespace mtpcheck::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

TEST(AcceptVerb, JsonHasWhatTheDocumentationPromises) {
  const ScratchDirectory scratch;
  const auto file = scratch.path() / "a.json";
  const ToolResult result =
      run_tool("accept " + kBf16 + " --traces " + kSampled + " --depth 3 --simulate --json " + file.string());
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto json = read_json(file);
  ASSERT_EQ(json["depths"].size(), 3U);
  for (std::size_t k = 0; k < 3; ++k) {
    const auto& depth = json["depths"][k];
    EXPECT_EQ(depth["depth"], k + 1);
    EXPECT_EQ(depth["greedy"]["rate"],
              depth["greedy"]["accepted"].get<double>() / depth["greedy"]["drafted"].get<double>());
    EXPECT_EQ(depth["expected"]["ci95"].size(), 2U);
    EXPECT_EQ(depth["expected"]["sound"], true);
  }
  EXPECT_GT(json["mean_acceptance_length"]["greedy"], 1);
  EXPECT_GT(json["mean_acceptance_length"]["expected"], 1);
  EXPECT_EQ(json["mean_acceptance_length"]["sound"]["greedy"], false);
  EXPECT_EQ(json["mean_acceptance_length"]["sound"]["expected"], true);
  EXPECT_EQ(json["sequences"].size(), 1U);
  EXPECT_FALSE(json["conventions"].empty());
  EXPECT_TRUE(json["definitions"].contains("vllm: mean acceptance length"));
  EXPECT_EQ(json["loop"][0]["verification"], "rejection");
  EXPECT_THAT(result.output, AllOf(HasSubstr("sglang"), HasSubstr("llama.cpp"), HasSubstr("loop, rejection")));
}

TEST(AcceptVerb, SamplingChoosesTheVerification) {
  const ScratchDirectory scratch;
  const auto file = (scratch.path() / "a.json").string();
  const std::string all =
      "accept " + kBf16 + " --depth 2 --simulate --json " + file + " --traces " + kGreedy + " " + kSampled;

  ASSERT_EQ(run_tool(all).exit_code, 0);
  const auto both = read_json(file);
  EXPECT_EQ(both["all_series"][0]["loop"][0]["verification"], "greedy");
  EXPECT_EQ(both["all_series"][1]["loop"][0]["verification"], "rejection");

  const ToolResult greedy_run = run_tool(all + " --sampling greedy");
  ASSERT_EQ(greedy_run.exit_code, 0) << greedy_run.output;
  EXPECT_THAT(greedy_run.output, AllOf(HasSubstr("loop, greedy"), Not(HasSubstr("rejection"))));
  const auto greedy = read_json(file);
  const auto rejection_run = run_tool(all + " --sampling rejection");
  ASSERT_EQ(rejection_run.exit_code, 0);
  EXPECT_THAT(rejection_run.output, AllOf(HasSubstr("loop, rejection"), Not(HasSubstr("greedy   "))));
  const auto rejection = read_json(file);
  for (std::size_t s = 0; s < 2; ++s) {
    for (std::size_t k = 0; k < 2; ++k) {
      const auto& whole = both["all_series"][s]["depths"][k];
      EXPECT_EQ(greedy["all_series"][s]["depths"][k]["greedy"], whole["greedy"]);
      EXPECT_FALSE(greedy["all_series"][s]["depths"][k].contains("expected"));
      EXPECT_EQ(rejection["all_series"][s]["depths"][k]["expected"], whole["expected"]);
      EXPECT_FALSE(rejection["all_series"][s]["depths"][k].contains("greedy"));
    }
  }
  EXPECT_EQ(greedy["all_series"][0]["loop"], both["all_series"][0]["loop"]);
  EXPECT_FALSE(greedy["all_series"][1].contains("loop")) << "no greedy loop along a sampled trace";
  EXPECT_FALSE(rejection["all_series"][0].contains("loop"));
  EXPECT_EQ(rejection["all_series"][1]["loop"], both["all_series"][1]["loop"]);
}

TEST(AcceptVerb, SamplingThatContradictsTheRestIsAUsageError) {
  const std::string accept = "accept " + kBf16 + " --traces ";
  EXPECT_EQ(run_tool(accept + kNatural + " --sampling sometimes").exit_code, 2);
  EXPECT_EQ(run_tool(accept + kNatural + " --sampling greedy --temperature 0.7").exit_code, 2);
  EXPECT_EQ(run_tool(accept + kNatural + " --simulate").exit_code, 2);
  EXPECT_EQ(run_tool(accept + kGreedy + " --simulate --sampling rejection").exit_code, 2);
  EXPECT_EQ(run_tool(accept + kSampled + " --simulate --temperature 0.7").exit_code, 2);
}

// Quantisations, presets, precisions and ways of sampling in one run, each held to the first on the same rows.
TEST(AcceptVerb, SweepsInOneRun) {
  const ScratchDirectory scratch;
  const auto file = scratch.path() / "a.json";
  const ToolResult result =
      run_tool("accept " + kBf16 + " --also " + kTiny + "/checkpoint-fp8-block --traces " + kNatural +
               " --dtype f32,bf16 --presets vllm,transformers --top-k 0,5 --top-p 1,0.9 --token-classes " + kTiny +
               "/token-classes.json --json " + file.string());
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto all = read_json(file)["all_series"];
  ASSERT_EQ(all.size(), 2U * 2 * 2 * 4);
  EXPECT_FALSE(all[0].contains("paired"));
  for (std::size_t i = 1; i < all.size(); ++i) EXPECT_EQ(all[i]["paired"][0]["baseline"], all[0]["series"]);
  const auto named = [&](const std::string& name) {
    for (const auto& series : all) {
      if (series["series"] == name) return series;
    }
    ADD_FAILURE() << "no " << name;
    return nlohmann::json();
  };
  const auto wrong = named("reference f32, checkpoint-bf16, preset vllm, top-k 0, top-p 1");
  const auto right = named("reference f32, checkpoint-bf16, preset transformers, top-k 0, top-p 1");
  EXPECT_LT(wrong["depths"][0]["greedy"]["rate"], right["depths"][0]["greedy"]["rate"]);
  std::set<std::string> by;
  for (const auto& group : right["groups"]) by.insert(group["by"]);
  EXPECT_EQ(by, (std::set<std::string>{"position", "token class"}));
}

TEST(AcceptVerb, CheckpointsOfOneNameAreToldApartByTheirFolders) {
  const ScratchDirectory scratch;
  for (const char* folder : {"a", "b"}) {
    fs::create_directories(scratch.path() / folder);
    fs::copy(kTiny + "/checkpoint-split", scratch.path() / folder / "head", fs::copy_options::recursive);
  }
  const auto at = scratch.path().string();
  const ToolResult result = run_tool("accept " + at + "/a/head --also " + at + "/b/head/ --traces " + kNatural);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("f32, a/head on"), HasSubstr("f32, b/head on"),
                                   HasSubstr("greedy +0.00 points [+0.00, +0.00] p 1")));
  EXPECT_EQ(run_tool("accept " + at + "/a/head --also " + at + "/a/head --traces " + kNatural).exit_code, 2);
}

}  // namespace
}  // namespace mtpcheck::cli
