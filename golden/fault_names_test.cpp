// Public faults of names and coverage (N01–N19), each as a small checkpoint: what an audit says of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "golden/cases/audited_case.h"
#include "golden/cases/recorded_loads.h"
#include "harness/loading/audit/output/audit_json.h"
#include "harness/loading/meaning/mtp_names.h"

namespace mtpcheck::golden {
namespace {

using ::testing::HasSubstr;

LoaderCase split() { return cases().read("a_bf16_split"); }

const std::string kHead = "model.layers.3.shared_head.head.weight";
const std::string kEmbedding = "model.embed_tokens.weight";

TEST(FaultNames, N01TopLevelNamesOfEmbeddingAndHeadNeverArrive) {
  LoaderCase made = split();
  rename(made, "lm_head.weight", "head.weight");
  rename(made, "model.embed_tokens.weight", "embed.weight");
  const Audit audited = audit_case(made);
  EXPECT_NE(find(audited, "unassigned", kHead), nullptr) << text_of(audited);
  EXPECT_NE(find(audited, "unassigned", kEmbedding), nullptr) << text_of(audited);
}

TEST(FaultNames, N02NoMtpWeightsAtAll) {
  LoaderCase made = split();
  drop(made, "~*");
  for (const char* loader : {"vllm", "none"}) {
    const Audit audited = audit_case(made, loader);
    ASSERT_NE(find(audited, "no-mtp-weights"), nullptr) << text_of(audited);
    EXPECT_EQ(find(audited, "no-mtp-weights")->severity, Severity::error);
  }
}

TEST(FaultNames, N03HeadNeitherLoadedNorShared) {
  LoaderCase made = split();
  drop(made, "lm_head.weight");
  const Audit audited = audit_case(made);
  ASSERT_NE(find(audited, "unassigned", kHead), nullptr) << text_of(audited);
  EXPECT_EQ(find(audited, "unassigned", kHead)->severity, Severity::error);
}

TEST(FaultNames, N04OwnTrainedHeadIsOverwrittenByTheSharedOne) {
  LoaderCase made = split();
  Tensor own = tensor_of(made, "lm_head.weight");
  tensors_of(made).emplace(long_name("~shared_head.head.weight"), own);
  EXPECT_EQ(find(audit_case(made), "ignored-differs"), nullptr);

  own.bytes[1] = std::byte{0x42};  // one number becomes about 32
  tensors_of(made).insert_or_assign(long_name("~shared_head.head.weight"), own);
  const Audit audited = audit_case(made);
  const Finding* const differs = find(audited, "ignored-differs", "~shared_head.head.weight");
  ASSERT_NE(differs, nullptr) << text_of(audited);
  EXPECT_EQ(differs->severity, Severity::info);
  EXPECT_THAT(differs->found, HasSubstr("by up to"));

  drop(made, "lm_head.weight");
  EXPECT_EQ(find(audit_case(made), "ignored-differs", "~shared_head.head.weight")->severity, Severity::warning);
}

TEST(FaultNames, N05FinalNormUnderANameThatDoesNotExist) {
  LoaderCase made = split();
  rename(made, "~final_layernorm.weight", "~norm_final.weight");
  const Audit audited = audit_case(made);
  ASSERT_NE(find(audited, "unassigned", "model.layers.3.final_layernorm.weight"), nullptr) << text_of(audited);
  EXPECT_THAT(find(audited, "unassigned")->found, HasSubstr("keeps one"));
}

TEST(FaultNames, N06AnUnknownTensorAndAnUnassignedParameterAreOneMessage) {
  LoaderCase made = split();
  rename(made, "~mlp.shared_experts.*", "~mlp.shared_mlp.*");
  const Audit audited = audit_case(made);
  const Finding* const unknown = find(audited, "unknown-tensor", "~mlp.shared_mlp.down_proj.weight");
  ASSERT_NE(unknown, nullptr) << text_of(audited);
  EXPECT_THAT(unknown->found, HasSubstr("mlp.shared_experts.down_proj.weight received nothing"));
  EXPECT_THAT(unknown->expected, HasSubstr("probably named mlp.shared_experts.down_proj.weight"));
}

TEST(FaultNames, N07EmbeddingDropped) {
  LoaderCase made = split();
  drop(made, kEmbedding);
  EXPECT_NE(find(audit_case(made), "unassigned", kEmbedding), nullptr);
}

TEST(FaultNames, N08TwoTensorsForOneSlice) {
  LoaderCase made = split();
  Tensor other = tensor_of(made, "~enorm.weight");
  other.bytes[0] ^= std::byte{1};
  tensors_of(made).emplace("model.layers.3.enorm.weight", other);
  const Audit audited = audit_case(made);
  const Finding* const twice = find(audited, "duplicate-write", "model.layers.3.enorm.weight");
  ASSERT_NE(twice, nullptr) << text_of(audited);
  EXPECT_THAT(twice->found, HasSubstr("which wins"));
}

TEST(FaultNames, N09LayerNumbersMatchAsAWhole) {
  EXPECT_FALSE(mtp_name("model.layers.1.enorm.weight", 10).has_value());
  EXPECT_EQ(mtp_name("model.layers.78.enorm.weight", 78)->layer, 0U);
  const auto far = mtp_name("model.layers.780.enorm.weight", 78);
  EXPECT_TRUE(!far || far->layer == 702);
  LoaderCase made = split();
  tensors_of(made).emplace("model.layers.30.enorm.weight", tensor_of(made, "~hnorm.weight"));
  tensors_of(made).emplace("model.layers.33.hnorm.weight", tensor_of(made, "~enorm.weight"));
  EXPECT_TRUE(audit_case(made).passes(Severity::warning)) << text_of(audit_case(made));
}

TEST(FaultNames, N10TheOrderOfTensorsNeverMatters) {
  const auto digests = [](const LoaderCase& made) {
    const ScratchDirectory scratch;
    write_checkpoint(made, scratch.path());
    const Checkpoint checkpoint = open_checkpoint(scratch.path());
    const AuditRequest request{.loader = find_loader("vllm"), .topology = {}};
    return digests_of(audit(checkpoint, parse_head_config(checkpoint.config, "config.json"), request), checkpoint);
  };
  const auto whole = digests(split());
  EXPECT_EQ(digests(cases().read("a_bf16_split_sharded")), whole);
  // Every tensor in a file of its own, read in the reverse of the usual order.
  LoaderCase made = split();
  const Tensors tensors = std::move(tensors_of(made));
  made.files.clear();
  made.weight_map.emplace();
  std::size_t number = 1000;
  for (const auto& [name, tensor] : tensors) {
    const std::string file = "model-" + std::to_string(--number) + ".safetensors";
    made.files[file].emplace(name, tensor);
    made.weight_map->emplace(name, file);
  }
  EXPECT_EQ(digests(made), whole);
}

TEST(FaultNames, N11ListsOfTheBackbonesLengthAndOneMoreBothWork) {
  LoaderCase made = split();
  for (const char* key : {"layer_types", "mlp_layer_types"}) {
    made.config[key].push_back(made.config[key].back());
  }
  EXPECT_TRUE(audit_case(made).passes(Severity::warning)) << text_of(audit_case(made));
}

TEST(FaultNames, N12DeclaredAndFoundAreBothTold) {
  LoaderCase made = split();
  made.config["num_nextn_predict_layers"] = 2;
  const Audit audited = audit_case(made);
  const Finding* const empty = find(audited, "layer-not-filled", "model.layers.4");
  ASSERT_NE(empty, nullptr) << text_of(audited);
  EXPECT_THAT(empty->found, HasSubstr("no tensor of MTP layer 1"));
  EXPECT_THAT(empty->expected, HasSubstr("2 MTP layers"));
  made.config["num_nextn_predict_layers"] = 0;
  const Audit refused = audit_case(made);
  EXPECT_NE(find(refused, "config-refused", "num_nextn_predict_layers"), nullptr) << text_of(refused);
}

TEST(FaultNames, N13TheLastOfTwoLayersIsIgnoredUnderOneForm) {
  const Audit audited = audit_case(cases().read("m_nextn2_layers_fp8"));
  const Finding* const empty = find(audited, "layer-not-filled", "model.layers.4");
  ASSERT_NE(empty, nullptr) << text_of(audited);
  EXPECT_EQ(empty->cause, Cause::loader);
}

TEST(FaultNames, N14AMissingHalfIsNamed) {
  LoaderCase made = split();
  drop(made, "~mlp.experts.2.up_proj.weight");
  const Audit audited = audit_case(made);
  const Finding* const partial = find(audited, "partial", "^mlp.experts.routed_experts.w13_weight");
  ASSERT_NE(partial, nullptr) << text_of(audited);
  EXPECT_THAT(partial->found, HasSubstr("expert 2, up half (w3)"));
  EXPECT_TRUE(partial->engine_says.empty());
}

TEST(FaultNames, N15AnUnknownSuffixFallsIntoTheScale) {
  LoaderCase made = cases().read("e_fp8_fused");
  tensors_of(made).emplace(long_name("~mlp.experts.down_proj_zero_point"),
                           tensor_of(made, "~mlp.experts.down_proj_scale_inv"));
  tensor_of(made, "~mlp.experts.down_proj_zero_point").bytes[0] ^= std::byte{1};
  const Audit audited = audit_case(made);
  EXPECT_NE(find(audited, "duplicate-write", "^mlp.experts.routed_experts.w2_weight_scale_inv"), nullptr)
      << text_of(audited);
}

TEST(FaultNames, N16WrongPrefixesMatchNothingAndTheNearestNamesAreShown) {
  for (const char* prefix : {"mtp.layers.0.", "language_model.model.mtp_layers.0."}) {
    LoaderCase made = split();
    rename(made, "~*", std::string(prefix) + "*");
    const Audit audited = audit_case(made);
    const Finding* const nothing = find(audited, "nothing-matched");
    ASSERT_NE(nothing, nullptr) << text_of(audited);
    EXPECT_THAT(nothing->found, HasSubstr(std::string(prefix) + "eh_proj.weight"));
  }
}

TEST(FaultNames, N17MoreLayersThanDeclared) {
  for (const char* name : {"m_nextn1_layers", "m_nextn1_mtp_layers"}) {
    const Audit audited = audit_case(cases().read(name));
    ASSERT_NE(find(audited, "extra-layer"), nullptr) << text_of(audited);
    EXPECT_EQ(find(audited, "extra-layer")->severity, Severity::info);
    EXPECT_TRUE(audited.passes(Severity::warning));
  }
}

TEST(FaultNames, N18TheSecondLayersHeadIsNeverFilled) {
  const Audit audited = audit_case(cases().read("m_nextn2_mtp_layers"));
  EXPECT_NE(find(audited, "unassigned", "model.layers.4.shared_head.head.weight"), nullptr) << text_of(audited);
}

TEST(FaultNames, N19ExpertsLostOnExport) {
  LoaderCase made = split();
  drop(made, "~mlp.experts.3.*");
  const Audit audited = audit_case(made);
  EXPECT_THAT(find(audited, "partial", "^mlp.experts.routed_experts.w13_weight")->found, HasSubstr("expert 3"));
  EXPECT_NE(find(audit_case(cases().read("x_fused_many_experts")), "expert-count"), nullptr);
}

}  // namespace
}  // namespace mtpcheck::golden
