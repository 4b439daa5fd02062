#include "harness/loading/meaning/meaning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/loading/meaning/tiny_checkpoint.h"

namespace mtpcheck {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kLayer = "model.mtp_layers.0.";

Meaning meaning(const TinyCheckpoint& tiny) { return meaning_of(tiny.config(), tiny.json, tiny.headers); }

std::vector<std::string> problems(const TinyCheckpoint& tiny) {
  std::vector<std::string> all;
  for (const MeaningProblem& problem : meaning(tiny).problems) {
    all.push_back(std::string(to_string(problem.id)) + " " + problem.weight + (problem.blocks ? "" : " (info)"));
    EXPECT_THAT(describe(problem, tiny.headers), HasSubstr(problem.found));
  }
  return all;
}

TinyCheckpoint tiny() {
  TinyCheckpoint checkpoint;
  checkpoint.fill();
  return checkpoint;
}

const MeantWeight& weight(const Meaning& meaning, const std::string& name) {
  for (const MeantWeight& one : meaning.weights) {
    if (one.name == name) return one;
  }
  throw std::out_of_range(name);
}

// Experts packed into two tensors.
TinyCheckpoint with_packed_experts() {
  TinyCheckpoint checkpoint = tiny();
  std::erase_if(checkpoint.headers.tensors,
                [](const TensorView& tensor) { return tensor.name.find(".experts.") != std::string::npos; });
  checkpoint.add(kLayer + "mlp.experts.gate_up_proj", {3, 128, 256});
  checkpoint.add(kLayer + "mlp.experts.down_proj", {3, 256, 64});
  return checkpoint;
}

TEST(Meaning, ACleanCheckpointHasNoProblem) {
  const TinyCheckpoint checkpoint = tiny();
  EXPECT_THAT(problems(checkpoint), IsEmpty());
  const Meaning clean = meaning(checkpoint);
  EXPECT_EQ(clean.weights.size(), logical_weights(checkpoint.config()).size());
  EXPECT_THAT(clean.uses, ::testing::Each(TensorUse::weight));
}

TEST(Meaning, PackedExpertsLieBehindEachOther) {
  const TinyCheckpoint checkpoint = with_packed_experts();
  EXPECT_THAT(problems(checkpoint), IsEmpty());
  const Meaning meant = meaning(checkpoint);
  EXPECT_EQ(weight(meant, "mlp.experts.2.gate_proj").first_element, 2U * 128 * 256);
  EXPECT_EQ(weight(meant, "mlp.experts.2.up_proj").first_element, (2U * 128 + 64) * 256);
  EXPECT_EQ(weight(meant, "mlp.experts.1.down_proj").first_element, 1U * 256 * 64);
}

TEST(Meaning, FusedProjectionsAreCutByRows) {
  TinyCheckpoint checkpoint = tiny();
  for (const char* name : {"self_attn.q_a_proj.weight", "self_attn.kv_a_proj_with_mqa.weight"}) checkpoint.drop(name);
  checkpoint.add(kLayer + "self_attn.fused_qkv_a_proj.weight", {128 + 32, 256}, Dtype::f8_e4m3);
  checkpoint.add(kLayer + "self_attn.fused_qkv_a_proj.weight_scale_inv", {2, 2}, Dtype::f32);
  EXPECT_THAT(problems(checkpoint), IsEmpty());
  const Meaning meant = meaning(checkpoint);
  EXPECT_EQ(weight(meant, "self_attn.kv_a_proj_with_mqa").first_element, 128U * 256);
  EXPECT_EQ(weight(meant, "self_attn.kv_a_proj_with_mqa").grid.first_cell, 2U);
}

TEST(Meaning, NamesInTheLayersFormMeanTheSame) {
  TinyCheckpoint checkpoint = tiny();
  for (TensorView& tensor : checkpoint.headers.tensors) {
    if (tensor.name.starts_with(kLayer)) tensor.name = "model.layers.3." + tensor.name.substr(kLayer.size());
  }
  EXPECT_THAT(problems(checkpoint), IsEmpty());
}

TEST(Meaning, WhatIsMissingIsNamed) {  // FAULTS N01, N14
  TinyCheckpoint checkpoint = tiny();
  checkpoint.drop("model.embed_tokens.weight");
  checkpoint.drop("lm_head.weight");
  checkpoint.drop("mlp.experts.1.up_proj.weight");
  EXPECT_THAT(problems(checkpoint),
              ElementsAre("missing embed_tokens", "missing mlp.experts.1.up_proj", "missing lm_head"));
}

TEST(Meaning, ATiedHeadIsTheEmbedding) {
  TinyCheckpoint checkpoint = tiny();
  checkpoint.drop("lm_head.weight");
  checkpoint.json["tie_word_embeddings"] = true;
  EXPECT_THAT(problems(checkpoint), IsEmpty());
  const Meaning meant = meaning(checkpoint);
  EXPECT_EQ(weight(meant, "lm_head").tensor, meant.embed_tokens.tensor);
}

TEST(Meaning, ALayersOwnHeadIsUsedWhereThereIsNoSharedOne) {
  TinyCheckpoint checkpoint = tiny();
  checkpoint.add(kLayer + "shared_head.head.weight", {97, 256});
  EXPECT_EQ(meaning(checkpoint).uses.back(), TensorUse::skipped_copy);
  checkpoint.drop("lm_head.weight");
  EXPECT_THAT(problems(checkpoint), IsEmpty());
  EXPECT_EQ(meaning(checkpoint).uses.back(), TensorUse::weight);
}

TEST(Meaning, NothingOfAnMtpLayerIsOneProblem) {  // FAULTS N02, N16
  TinyCheckpoint checkpoint = tiny();
  for (TensorView& tensor : checkpoint.headers.tensors) {
    if (tensor.name.starts_with(kLayer)) tensor.name = "mtp.layers.0." + tensor.name.substr(kLayer.size());
  }
  EXPECT_THAT(problems(checkpoint), ElementsAre("no-mtp-weights "));
  EXPECT_THAT(describe(meaning(checkpoint).problems[0], checkpoint.headers),
              AllOf(HasSubstr("model.layers.3.*"), HasSubstr("mtp.layers.0.enorm.weight")));
}

TEST(Meaning, MoreOrFewerLayersThanDeclared) {  // FAULTS N12, N17
  TinyCheckpoint checkpoint = tiny();
  checkpoint.add("model.mtp_layers.1.enorm.weight", {256});
  checkpoint.add("model.layers.4.hnorm.weight", {256});
  EXPECT_THAT(problems(checkpoint), ElementsAre("extra-layer  (info)"));
  checkpoint = tiny();
  checkpoint.json["num_nextn_predict_layers"] = 2;
  EXPECT_THAT(problems(checkpoint), ElementsAre("layer-not-filled "));
  checkpoint.json["num_nextn_predict_layers"] = nullptr;
  EXPECT_THAT(problems(checkpoint), IsEmpty());
}

TEST(Meaning, TwoTensorsForOneWeightAreAmbiguousUnlessEqual) {
  TinyCheckpoint checkpoint = tiny();
  checkpoint.add("model.layers.3.enorm.weight", {256});
  EXPECT_THAT(problems(checkpoint), ElementsAre("ambiguous enorm.weight"));
  const std::vector<std::byte> same(512);
  checkpoint.headers.tensors.back().bytes = same;
  checkpoint.at("enorm.weight").bytes = same;
  EXPECT_THAT(problems(checkpoint), ElementsAre("ambiguous enorm.weight (info)"));
  checkpoint = with_packed_experts();
  checkpoint.add(kLayer + "mlp.experts.1.up_proj.weight", {64, 256});
  EXPECT_THAT(problems(checkpoint), ElementsAre("ambiguous mlp.experts.1.up_proj"));
}

TEST(Meaning, ShapesMustBeTheWeights) {  // FAULTS E02
  TinyCheckpoint checkpoint = with_packed_experts();
  checkpoint.at("mlp.experts.gate_up_proj").shape = {3, 256, 128};
  checkpoint.at("mlp.experts.down_proj").shape = {4, 256, 64};
  checkpoint.at("enorm.weight").shape = {255};
  EXPECT_THAT(problems(checkpoint), ElementsAre("shape-mismatch enorm.weight", "shape-mismatch mlp.experts.0.gate_proj",
                                                "expert-count mlp.experts.0.down_proj"));
  EXPECT_THAT(meaning(checkpoint).problems[1].found, HasSubstr("transposed"));
}

TEST(Meaning, QuantisedTensorsNeedOneScale) {  // FAULTS Q01, Q09
  TinyCheckpoint checkpoint = tiny();
  checkpoint.at("self_attn.o_proj.weight").dtype = Dtype::f8_e4m3;
  EXPECT_THAT(problems(checkpoint), ElementsAre("scale-missing self_attn.o_proj"));
  checkpoint.add(kLayer + "self_attn.o_proj.scale", {2, 1}, Dtype::u8);
  EXPECT_THAT(problems(checkpoint), IsEmpty());
  EXPECT_EQ(weight(meaning(checkpoint), "self_attn.o_proj").layout, QuantLayout::block);
  EXPECT_EQ(weight(meaning(checkpoint), "self_attn.o_proj").grid.read_as, Dtype::f8_e8m0);
  checkpoint.add(kLayer + "self_attn.o_proj.weight_scale", {256, 1}, Dtype::f32);
  EXPECT_THAT(problems(checkpoint), ElementsAre("scale-conflict self_attn.o_proj"));
  checkpoint.headers.tensors.pop_back();
  checkpoint.headers.tensors.back().shape = {1, 2};
  EXPECT_THAT(problems(checkpoint), ElementsAre("scale-format self_attn.o_proj"));
}

TEST(Meaning, ScalesOfNothingAreOrphans) {  // FAULTS Q09
  TinyCheckpoint checkpoint = tiny();
  checkpoint.add(kLayer + "self_attn.indexer.wk.weight_scale_inv", {1, 2}, Dtype::f32);
  checkpoint.add(kLayer + "self_attn.v_proj.weight_scale_inv", {1, 2}, Dtype::f32);
  EXPECT_THAT(problems(checkpoint),
              ElementsAre("orphan-scale self_attn.indexer.wk", "orphan-scale self_attn.v_proj (info)"));
}

TEST(Meaning, WhatAHeadDoesNotHaveIsUnknown) {  // FAULTS N06
  TinyCheckpoint checkpoint = tiny();
  checkpoint.add(kLayer + "mlp.shared_mlp.gate_proj.weight", {64, 256});
  checkpoint.add(kLayer + "mlp.experts.3.gate_proj.weight", {64, 256});
  checkpoint.add(kLayer + "self_attn.k_proj.k_scale", {}, Dtype::f32);
  checkpoint.add(kLayer + "self_attn.o_proj.input_scale", {}, Dtype::f32);
  checkpoint.add("model.layers.0.mlp.whatever", {}, Dtype::f32);
  EXPECT_THAT(problems(checkpoint), ElementsAre("unknown-tensor  (info)", "expert-count  (info)"));
}

TEST(Meaning, DtypesThatNoWeightHasAreContradictions) {
  TinyCheckpoint checkpoint = tiny();
  checkpoint.at("self_attn.o_proj.weight").dtype = Dtype::u8;
  checkpoint.at("hnorm.weight").dtype = Dtype::f8_e4m3;
  EXPECT_THAT(problems(checkpoint),
              ElementsAre("dtype-contradiction hnorm.weight", "dtype-contradiction self_attn.o_proj"));
}

TEST(Meaning, ThatAnUnlistedShardHoldsAWeightDoesNotCount) {
  TinyCheckpoint checkpoint = tiny();
  checkpoint.headers.indexed_files = {"m.safetensors"};
  EXPECT_THAT(problems(checkpoint), IsEmpty());
  checkpoint.at("enorm.weight").file = "other.safetensors";
  EXPECT_THAT(problems(checkpoint), ElementsAre("missing enorm.weight"));
}

}  // namespace
}  // namespace mtpcheck
