#include "golden/cases/loader_case.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "golden/cases/loader_outcome.h"
#include "harness/checkpoint/scratch_directory.h"
#include "harness/loading/carry_out/carry_out.h"

namespace mtpcheck::golden {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(MTPCHECK_GOLDEN_DIR) / "loader";

std::string digest(const std::string& bytes) { return sha256(std::as_bytes(std::span(bytes))); }

TEST(CaseText, StarsTakeTheLongestMatchAndFillTheOtherSide) {
  const auto stars = match("*.scale", "model.a.scale.scale");
  ASSERT_TRUE(stars.has_value());
  EXPECT_EQ(filled("*.weight_scale_inv", *stars), "model.a.scale.weight_scale_inv");
  EXPECT_FALSE(match("~mlp.experts.1.*", "model.mtp_layers.0.mlp.experts.11.down_proj.weight").has_value());
  EXPECT_EQ(long_name("^mlp.gate.weight"), "model.layers.3.mtp_block.mlp.gate.weight");
}

TEST(LoaderCases, EveryFileIsTheRecordedOneByteForByte) {
  const LoaderCases cases(kFolder);
  const auto outcomes = LoaderOutcomes::of_vllm(kFolder);
  ASSERT_EQ(cases.names().size(), 232U);
  for (const auto& name : cases.names()) {
    SCOPED_TRACE(name);
    const auto made = cases.read(name);
    const auto recorded = outcomes.read(name).file_sha256;
    ASSERT_EQ(made.files.size(), recorded.size());
    for (const auto& [file, tensors] : made.files) EXPECT_EQ(digest(safetensors_file(tensors)), recorded.at(file));
  }
}

TEST(LoaderCases, AnEditChangesWhatItNames) {
  const LoaderCases cases(kFolder);
  const auto base = cases.read("a_bf16_split").files.at("model.safetensors");
  const auto made = cases.read("x_short_expert").files.at("model.safetensors");
  std::vector<std::string> changed;
  for (const auto& [name, tensor] : base) {
    if (made.at(name).shape != tensor.shape) changed.push_back(name);
  }
  EXPECT_EQ(changed, (std::vector<std::string>{"model.mtp_layers.0.mlp.experts.1.gate_proj.weight",
                                               "model.mtp_layers.0.mlp.experts.2.down_proj.weight"}));
}

TEST(LoaderCases, WritesACheckpointDirectory) {
  const ScratchDirectory scratch;
  const auto made = LoaderCases(kFolder).read("x_shard_not_in_index");
  write_checkpoint(made, scratch.path());
  std::ifstream file(scratch.path() / "model.safetensors.index.json");
  const auto index = nlohmann::json::parse(file);
  EXPECT_FALSE(index.at("weight_map").contains("model.mtp_layers.0.mlp.experts.3.up_proj.weight"));
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "model-00002-of-00002.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "config.json"));
}

TEST(LoaderOutcomes, ToldAgainstTheParent) {
  const auto outcomes = LoaderOutcomes::of_vllm(kFolder);
  const auto outcome = outcomes.read("x_short_expert");
  EXPECT_TRUE(outcome.defective);
  EXPECT_TRUE(outcome.engine_silent);
  EXPECT_EQ(outcome.silently_incomplete.at("model.layers.3.mtp_block.mlp.experts.routed_experts.w13_weight"), 512U);
  const auto& loads = outcome.tensor("model.mtp_layers.0.mlp.experts.1.gate_proj.weight", 0).loads;
  ASSERT_EQ(loads.size(), 1U);
  EXPECT_EQ(loads[0], (RecordedLoad{"model.layers.3.mtp_block.mlp.experts.routed_experts.w13_weight", "w1", 1, true}));
  const auto& parameter = outcome.parameters.at("model.layers.3.mtp_block.mlp.experts.routed_experts.w13_weight");
  EXPECT_EQ(parameter.shape, (std::vector<std::size_t>{4, 64, 64}));
  EXPECT_EQ(parameter.initial, "uninitialized");
  EXPECT_EQ(outcome.parameters.at("model.layers.3.enorm.weight").sha256,
            outcomes.read("a_bf16_split").parameters.at("model.layers.3.enorm.weight").sha256);
}

TEST(LoaderOutcomes, Sglang) {
  const auto outcomes = LoaderOutcomes::of_sglang(std::filesystem::path(MTPCHECK_GOLDEN_DIR) / "loader-sglang");
  ASSERT_EQ(outcomes.names().size(), 218U);
  const auto outcome = outcomes.read("q_mxfp8_split");
  EXPECT_EQ(outcome.config_changes.at("layer_types"),
            R"(["indexed_attention", "indexed_attention", "indexed_attention"])");
  EXPECT_TRUE(outcome.compared_with_vllm);
  EXPECT_TRUE(outcome.differs_from_vllm.empty());
  EXPECT_EQ(outcome.parameters.at("model.embed_tokens.weight").unwritten, 16384U);
}

}  // namespace
}  // namespace mtpcheck::golden
