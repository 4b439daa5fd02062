// What the recorded cases leave out: other ranks, expert maps, refusals of sizes, the loader's registry.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "golden/cases/loader_case.h"
#include "harness/loading/plan/coverage.h"
#include "harness/loading/rules.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

struct Planner {
  explicit Planner(const std::string& name)
      : made(golden::LoaderCases(std::filesystem::path(MTPCHECK_GOLDEN_DIR) / "loader").read(name)) {
    for (const auto& [file, tensors] : made.files) {
      for (const auto& [tensor, value] : tensors) {
        headers.tensors.push_back(value.view(tensor));
        headers.tensors.back().file = file;
      }
    }
  }

  LoadPlan plan() const {
    const HeadConfig config = parse_head_config(made.config, made.name);
    return plan_vllm_0_33_0({config, made.config, headers, topology});
  }

  std::string refused_key() const {
    const LoadPlan refused = plan();
    return refused.refusal ? refused.refusal->config_key : "";
  }

  golden::LoaderCase made;
  HeaderSet headers;
  Topology topology;
};

const std::string kW13 = "model.layers.3.mtp_block.mlp.experts.routed_experts.w13_weight";

TEST(Vllm, IsFoundByNameAndVersion) {
  EXPECT_EQ(find_loader("vllm")->version, "0.33.0");
  EXPECT_EQ(find_loader("vllm@0.33.0"), find_loader("vllm"));
  EXPECT_EQ(find_loader("vllm@0.1"), nullptr);
  EXPECT_EQ(find_loader("llama.cpp"), nullptr);
}

TEST(Vllm, EveryRankHoldsItsShareOfTheHeads) {
  Planner planner("a_bf16_split");
  planner.topology.tp_size = 4;
  std::size_t rows = 0;
  for (planner.topology.tp_rank = 0; planner.topology.tp_rank < 4; ++planner.topology.tp_rank) {
    const LoadPlan plan = planner.plan();
    ASSERT_FALSE(plan.refusal || plan.exception);
    for (const Coverage& coverage : coverage_of(plan)) EXPECT_TRUE(coverage.complete());
    const auto sink = plan.find_parameter("model.layers.3.mtp_block.self_attn.learnable_sink_param");
    EXPECT_EQ(plan.parameters[*sink].shape, Shape{1});
    rows += plan.parameters[*plan.find_parameter("model.embed_tokens.weight")].shape[0];
  }
  EXPECT_EQ(rows, 128U);
}

TEST(Vllm, SizesThatRanksCannotShareAreRefusedByTheirKey) {
  Planner planner("a_bf16_split");
  planner.topology.tp_size = 3;
  EXPECT_EQ(planner.refused_key(), "num_attention_heads");
  planner.made.config["num_attention_heads"] = 3;
  EXPECT_EQ(planner.refused_key(), "vocab_size");
  planner.topology.tp_size = 8;
  planner.made.config["num_attention_heads"] = 8;
  EXPECT_EQ(planner.refused_key(), "n_routed_experts");
}

TEST(Vllm, ExpertsAreDealtOutInTurn) {
  Planner planner("a_bf16_twelve_experts");
  planner.topology = {8, 4, true, {}};
  planner.made.config["num_attention_heads"] = 8;
  const LoadPlan plan = planner.plan();
  // Twelve over eight: the first four ranks have two, this one the tenth… of one.
  ASSERT_FALSE(plan.refusal);
  EXPECT_THAT(plan.parameters[*plan.find_parameter(kW13)].experts, testing::ElementsAre(8U));
  planner.topology.tp_rank = 1;
  const LoadPlan first = planner.plan();
  EXPECT_THAT(first.parameters[*first.find_parameter(kW13)].experts, testing::ElementsAre(2U, 3U));
}

TEST(Vllm, AnExpertMapPlacesExpertsAsItSays) {
  Planner planner("a_bf16_split");
  planner.topology = {2, 0, true, {1, -1, -1, 0}};
  const LoadPlan plan = planner.plan();
  const auto w13 = plan.find_parameter(kW13);
  EXPECT_THAT(plan.parameters[*w13].experts, testing::ElementsAre(3U, 0U));
  EXPECT_TRUE(coverage_of(plan, *w13).complete());
  for (const Load& load : plan.loads) {
    EXPECT_TRUE(load.parameter != *w13 || load.written == (load.expert == 0 || load.expert == 3));
  }
}

TEST(Vllm, ImpossibleTopologiesAreUsageErrors) {
  Planner planner("a_bf16_split");
  const auto failure = [&] {
    try {
      planner.plan();
    } catch (const Error& error) {
      return error.failure();
    }
    return Failure::input;
  };
  planner.topology = {2, 2, false, {}};
  EXPECT_EQ(failure(), Failure::usage);
  planner.topology = {2, 0, false, {0, 1, -1, -1}};
  EXPECT_EQ(failure(), Failure::usage);
  planner.topology = {2, 0, true, {0, 1}};
  EXPECT_EQ(failure(), Failure::usage);
  planner.topology = {2, 0, true, {0, 0, -1, -1}};
  EXPECT_EQ(failure(), Failure::usage);
  planner.topology = {2, 0, true, {0, 2, -1, -1}};
  EXPECT_EQ(failure(), Failure::usage);
}

TEST(Vllm, AQuantisationItDoesNotKnowIsRefused) {
  Planner planner("d_fp8_split");
  planner.made.config["quantization_config"]["quant_method"] = "fp3";
  EXPECT_EQ(planner.refused_key(), "quantization_config.quant_method");
  planner.made.config["quantization_config"]["quant_method"] = "awq";
  EXPECT_THROW(planner.plan(), Error);  // known to the engine, but not covered here
}

TEST(Vllm, BlocksThatRanksWouldShareAreRefused) {
  Planner planner("d_fp8_split");
  planner.topology.tp_size = 2;
  planner.made.config["num_attention_heads"] = 2;
  planner.made.config["v_head_dim"] = 24;
  EXPECT_FALSE(planner.refused_key().empty());
}

TEST(Vllm, ActivationsOfAnotherHeadAreRefused) {
  Planner planner("a_bf16_split");
  planner.made.config["hidden_act"] = "gelu";
  EXPECT_EQ(planner.refused_key(), "hidden_act");
  planner.made.config.erase("hidden_act");
  planner.made.config["indexer_types"] = {"full"};
  EXPECT_EQ(planner.refused_key(), "indexer_types");
}

TEST(Vllm, TheOrderOfTheHeadersDoesNotMatter) {
  Planner planner("e_fp8_fused");
  const LoadPlan forward = planner.plan();
  std::ranges::reverse(planner.headers.tensors);
  const LoadPlan backward = planner.plan();
  ASSERT_EQ(forward.writes.size(), backward.writes.size());
  for (std::size_t i = 0; i < forward.writes.size(); ++i) {
    EXPECT_EQ(forward.writes[i].box, backward.writes[i].box);
    EXPECT_EQ(forward.writes[i].tensor, planner.headers.tensors.size() - 1 - backward.writes[i].tensor);
  }
}

}  // namespace
}  // namespace mtpcheck
