// What the recorded cases leave out: other ranks, read order, refusals, the pool's exceptions, the loader's registry.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "golden/cases/audited_case.h"
#include "golden/cases/planned_case.h"
#include "harness/loading/carry_out/carry_out.h"
#include "harness/loading/carry_out/weights_as_loaded.h"
#include "harness/loading/plan/coverage.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

using golden::LoaderCase;
using golden::PlannedCase;

const std::string kSglang = "sglang@0.5.23";

// A case of golden/loader, with the one spelling of layer types that SGLang accepts.
LoaderCase case_of(const std::string& name) {
  LoaderCase made = golden::LoaderCases(std::filesystem::path(MTPCHECK_GOLDEN_DIR) / "loader").read(name);
  made.config["layer_types"] = {"indexed_attention", "indexed_attention", "indexed_attention"};
  return made;
}

std::string refused_key(const LoaderCase& made) {
  const PlannedCase planned(made, kSglang);
  return planned.plan.refusal ? planned.plan.refusal->config_key : "";
}

Tensor loaded(const PlannedCase& planned, const std::string& parameter) {
  return carry_out(planned.plan, *planned.plan.find_parameter(parameter), planned.headers.tensors).tensor;
}

TEST(Sglang, IsFoundByNameAndVersion) {
  EXPECT_EQ(find_loader("sglang")->version, "0.5.23");
  EXPECT_EQ(find_loader(kSglang), find_loader("sglang"));
  EXPECT_EQ(find_loader("sglang@0.33.0"), nullptr);
}

TEST(Sglang, HoldsTheIndexersRowsOfVllmWithTheRopeFirst) {
  const LoaderCase made = case_of("a_bf16_split");
  const PlannedCase sglang(made, kSglang);
  const PlannedCase vllm(made, "vllm@0.33.0");
  const Tensor ours = loaded(sglang, "model.decoder.self_attn.indexer.wq_b.weight");
  const Tensor theirs = loaded(vllm, "model.layers.3.mtp_block.self_attn.indexer.wq_b.weight");
  ASSERT_EQ(ours.shape, theirs.shape);
  const std::size_t head = sglang.config.index_head_dim;
  const std::size_t rope = sglang.config.qk_rope_head_dim;
  const std::size_t row_bytes = ours.bytes.size() / ours.shape[0];
  for (std::size_t row = 0; row < ours.shape[0]; ++row) {
    const std::size_t same = row / head * head + (row % head + head - rope) % head;
    EXPECT_TRUE(std::equal(ours.bytes.begin() + static_cast<std::ptrdiff_t>(row * row_bytes),
                           ours.bytes.begin() + static_cast<std::ptrdiff_t>((row + 1) * row_bytes),
                           theirs.bytes.begin() + static_cast<std::ptrdiff_t>(same * row_bytes)))
        << row;
  }
}

TEST(Sglang, EveryRankHoldsItsShareOfTheHeads) {
  LoaderCase made = case_of("a_bf16_split");
  made.tp_size = 4;
  for (made.tp_rank = 0; made.tp_rank < 4; ++made.tp_rank) {
    const PlannedCase planned(made, kSglang);
    ASSERT_FALSE(planned.plan.refusal || planned.plan.exception);
    const auto coverage = coverage_of(planned.plan);
    for (std::size_t i = 0; i < coverage.size(); ++i) {
      const Parameter& parameter = planned.plan.parameters[i];
      EXPECT_EQ(coverage[i].complete(), parameter.origin == Origin::checkpoint) << parameter.name;
    }
  }
}

TEST(Sglang, ExpertsOfOtherRanksAreNotLocal) {
  LoaderCase made = case_of("a_bf16_twelve_experts");
  made.tp_size = 4;
  made.tp_rank = 2;
  made.expert_parallel = true;
  const PlannedCase planned(made, kSglang);
  const auto& w13 = planned.plan.parameters[*planned.plan.find_parameter("model.decoder.mlp.experts.w13_weight")];
  EXPECT_THAT(w13.experts, testing::ElementsAre(6U, 7U, 8U));
  for (std::uint32_t i = 0; i < planned.headers.tensors.size(); ++i) {
    const std::string& name = planned.headers.tensors[i].name;
    if (name.find("experts.5.") != std::string::npos) {
      EXPECT_EQ(planned.plan.tensors[i].outcome, Outcome::not_local) << name;
    }
    if (name.find("experts.6.") != std::string::npos) {
      EXPECT_EQ(planned.plan.tensors[i].outcome, Outcome::loaded) << name;
    }
  }
}

TEST(Sglang, ShardsAreReadInTextOrder) {
  LoaderCase made = case_of("a_bf16_split");
  auto tensors = made.files.at("model.safetensors");
  const std::string enorm = "model.mtp_layers.0.enorm.weight";
  made.files.clear();
  made.files["model-2.safetensors"] = tensors;
  made.files["model-10.safetensors"] = {{enorm, tensors.at(enorm)}};
  const auto file_that_wins = [&](const std::string& loader, const std::string& parameter) {
    const PlannedCase planned(made, loader);
    const Coverage coverage = coverage_of(planned.plan, *planned.plan.find_parameter(parameter));
    return planned.headers.tensors[planned.plan.writes[coverage.visible.at(0).write].tensor].file;
  };
  EXPECT_EQ(file_that_wins(kSglang, "model.enorm.weight"), "model-2.safetensors");
  EXPECT_EQ(file_that_wins("vllm@0.33.0", "model.layers.3.enorm.weight"), "model-10.safetensors");
}

TEST(Sglang, ThePoolsExceptionsStopNoOtherTensor) {
  const PlannedCase planned(case_of("x_bf16_weights_fp8_config"), kSglang);
  ASSERT_TRUE(planned.plan.exception);
  EXPECT_EQ(planned.plan.exception->where, EngineException::Where::weight_loader);
  EXPECT_EQ(planned.plan.swallowed.size(), 2U);
  EXPECT_TRUE(std::ranges::none_of(planned.plan.tensors,
                                   [](const PlannedTensor& tensor) { return tensor.outcome == Outcome::not_reached; }));
}

TEST(Sglang, AModelWithoutADtypeIsFloat16) {
  LoaderCase made = case_of("a_bf16_split");
  made.config.erase("dtype");
  const PlannedCase planned(made, kSglang);
  EXPECT_EQ(planned.plan.parameters[*planned.plan.find_parameter("model.enorm.weight")].dtype, Dtype::f16);
  const auto fused = planned.plan.find_parameter("model.decoder.self_attn.indexer.wk_weights_proj.weight");
  EXPECT_EQ(planned.plan.parameters[*fused].dtype, Dtype::bf16);
}

TEST(Sglang, ABackboneOfOneLayerLosesTheWholeDraft) {
  LoaderCase made = case_of("a_bf16_split");
  made.config["num_hidden_layers"] = 1;
  for (const char* key : {"layer_types", "mlp_layer_types", "indexer_types"}) made.config.erase(key);
  made.config["layer_types"] = {"indexed_attention"};
  made.config["mlp_layer_types"] = {"sparse"};
  const PlannedCase planned(made, kSglang);
  EXPECT_TRUE(planned.plan.writes.empty());
  const Audit audited = golden::audit_case(made, kSglang);
  EXPECT_NE(golden::find(audited, "layer-not-filled"), nullptr) << golden::text_of(audited);
}

TEST(Sglang, RefusesWhatItsConfigInsistsOn) {
  const auto with = [](const char* key, nlohmann::json value) {
    LoaderCase made = case_of("a_bf16_split");
    made.config[key] = std::move(value);
    return refused_key(made);
  };
  EXPECT_EQ(with("layer_types", {"sparse_attention", "sparse_attention", "sparse_attention"}), "layer_types");
  // One entry more, for the MTP layer, is what other engines read.
  EXPECT_EQ(with("mlp_layer_types", {"dense", "sparse", "sparse", "sparse"}), "mlp_layer_types");
  EXPECT_EQ(with("indexer_types", {"shared", "full", "full"}), "indexer_types");
  EXPECT_EQ(with("gating_type", "headwise"), "gating_type");
  EXPECT_EQ(with("learnable_sink", false), "learnable_sink");
  EXPECT_EQ(with("rope_parameters", {{"rope_type", "default"}}), "rope_parameters.rope_theta");
  EXPECT_EQ(with("quantization_config", {{"quant_method", "exl9"}}), "quantization_config.quant_method");
  LoaderCase made = case_of("a_bf16_split");
  made.tp_size = 3;
  EXPECT_EQ(refused_key(made), "num_attention_heads");
}

TEST(Sglang, ReadsMxfp8InItsOwnWordsToo) {
  LoaderCase made = case_of("q_mxfp8_split");
  const PlannedCase modelopt(made, kSglang);
  made.config["quantization_config"] = {
      {"quant_method", "mxfp8"}, {"activation_scheme", "dynamic"}, {"weight_block_size", {128, 128}}};
  const PlannedCase own(made, kSglang);
  ASSERT_EQ(own.plan.parameters.size(), modelopt.plan.parameters.size());
  for (std::size_t i = 0; i < own.plan.parameters.size(); ++i) {
    EXPECT_EQ(own.plan.parameters[i].shape, modelopt.plan.parameters[i].shape) << own.plan.parameters[i].name;
    EXPECT_EQ(own.plan.parameters[i].dtype, modelopt.plan.parameters[i].dtype) << own.plan.parameters[i].name;
  }
  made.config["quantization_config"]["modules_to_not_convert"] = {"model.mtp_layers.0.self_attn.o_proj"};
  const PlannedCase without(made, kSglang);
  const auto o_proj = without.plan.find_parameter("model.decoder.self_attn.o_proj.weight");
  EXPECT_EQ(without.plan.parameters[*o_proj].dtype, Dtype::bf16);
}

TEST(Sglang, ANameThatIsItsOwnPartnerIsDroppedWithAWarning) {
  LoaderCase made = case_of("a_bf16_split");
  golden::rename(made, "~self_attn.q_a_proj.weight", "~self_attn.q_a_proj.kv_a_proj_with_mqa.weight");
  const PlannedCase planned(made, kSglang);
  EXPECT_EQ(planned.plan.warnings.size(), 1U);
  EXPECT_FALSE(planned.plan.exception);
}

TEST(Sglang, NoHeadIsMadeOfItsParameters) {
  const LoaderCase made = case_of("a_bf16_split");
  const PlannedCase planned(made, kSglang);
  const LoadRequest request{
      .config = planned.config, .config_json = made.config, .headers = planned.headers, .topology = {}};
  EXPECT_THROW(weights_as_loaded(planned.plan, request, planned.headers.tensors, Fill::initial), Error);
}

TEST(Sglang, TakesNoExpertMap) {
  const LoaderCase made = case_of("a_bf16_split");
  const PlannedCase planned(made, kSglang);
  const Topology topology{2, 0, true, {0, 1, -1, -1}};
  const LoadRequest request{
      .config = planned.config, .config_json = made.config, .headers = planned.headers, .topology = topology};
  EXPECT_THROW(plan_sglang_0_5_23(request), Error);
}

}  // namespace
}  // namespace mtpcheck
