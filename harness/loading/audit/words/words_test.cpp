#include <gtest/gtest.h>

#include "harness/loading/audit/words/pieces.h"
#include "harness/loading/audit/words/rename.h"

namespace mtpcheck {
namespace {

Parameter experts() {
  Parameter parameter;
  parameter.name = "model.layers.78.mtp_block.mlp.experts.routed_experts.w13_weight";
  parameter.shape = {3, 8, 4};
  parameter.extents = {3, 8, 4};
  parameter.parts = {{"gate_proj", {0, 4}}, {"up_proj", {4, 8}}};
  parameter.experts = {16, 17, 20};
  return parameter;
}

Parameter fused() {
  Parameter parameter;
  parameter.name = "model.layers.78.mtp_block.self_attn.fused_qkv_a_proj.weight_scale_inv";
  parameter.shape = {3, 2};
  parameter.extents = {1, 3, 2};
  parameter.parts = {{"q_a_proj", {0, 2}}, {"kv_a_proj_with_mqa", {2, 3}}};
  return parameter;
}

TEST(Pieces, OfExpertsAreOneAHalf) {
  const auto pieces = pieces_of(experts());
  ASSERT_EQ(pieces.size(), 6U);
  EXPECT_EQ(pieces[3].weight, "mlp.experts.17.up_proj");
  EXPECT_EQ(pieces[3].box, (Box{{1, 2}, {4, 8}, {0, 4}}));
}

TEST(Pieces, OfAFusedScaleAreItsProjections) {
  const auto pieces = pieces_of(fused());
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_EQ(pieces[0].weight, "self_attn.q_a_proj");
  EXPECT_EQ(pieces[1].weight, "self_attn.kv_a_proj_with_mqa");
}

TEST(Pieces, NamesOfTheEngineAndOfTheFilesBecomeOne) {
  Parameter norm;
  norm.name = "model.layers.3.enorm.weight";
  norm.extents = {1, 8, 1};
  EXPECT_EQ(pieces_of(norm)[0].weight, weight_key("enorm.weight"));
  norm.name = "model.layers.3.shared_head.head.weight";
  EXPECT_EQ(pieces_of(norm)[0].weight, weight_key("lm_head"));
  norm.name = "model.layers.3.mtp_block.mlp.expert_bias";
  EXPECT_EQ(pieces_of(norm)[0].weight, weight_key("mlp.gate.e_score_correction_bias"));
  norm.name = "model.layers.3.mtp_block.self_attn.learnable_sink_param";
  EXPECT_EQ(pieces_of(norm)[0].weight, weight_key("self_attn.learnable_sink_param"));
  norm.name = "model.embed_tokens.weight";
  EXPECT_EQ(pieces_of(norm)[0].weight, "embed_tokens");
}

TEST(Words, OfABoxNameExpertsAndHalves) {
  const auto parameter = experts();
  EXPECT_EQ(in_words(parameter, Box{{1, 2}, {4, 8}, {0, 4}}), "expert 17, up half (w3)");
  EXPECT_EQ(in_words(parameter, Box{{0, 2}, {0, 8}, {0, 4}}), "experts 16 to 17");
  EXPECT_EQ(in_words(parameter, Box{{1, 3}, {0, 8}, {0, 4}}), "experts 17, 20");
  EXPECT_EQ(in_words(parameter, Box{{0, 1}, {2, 4}, {0, 4}}), "expert 16, gate half (w1), rows 2 to 3");
  EXPECT_EQ(in_words(parameter, Box{{2, 3}, {0, 8}, {3, 4}}), "expert 20, column 3");
  EXPECT_EQ(in_words(parameter, whole(parameter.extents)), "all");
  EXPECT_EQ(in_words(fused(), Box{{0, 1}, {2, 3}, {0, 2}}), "kv_a_proj_with_mqa");
}

TEST(Words, ManyBoxesAreCutShort) {
  const std::vector<Box> boxes(5, Box{{1, 2}, {4, 8}, {0, 4}});
  EXPECT_EQ(in_words(experts(), boxes, 1), "expert 17, up half (w3); and 4 more");
}

TEST(Renames, PairWhatLooksAlikeAndFits) {
  const auto pairs =
      likely_renames({{"self_attn.gate_proj.weight", {64, 64}}, {"self_attn.sinks", {4}}},
                     {{"self_attn.learnable_sink_param", {4}}, {"self_attn.linear_gate.weight", {64, 64}}});
  ASSERT_EQ(pairs.size(), 2U);
  for (const auto& pair : pairs) EXPECT_NE(pair.unknown, pair.wanted);
}

TEST(Renames, OtherShapesAndOtherWordsArePairedWithNothing) {
  EXPECT_TRUE(
      likely_renames({{"self_attn.gate_proj.weight", {8, 64}}}, {{"self_attn.linear_gate.weight", {64, 64}}}).empty());
  EXPECT_TRUE(likely_renames({{"bogus", {}}}, {{"self_attn.linear_gate.weight", {}}}).empty());
}

}  // namespace
}  // namespace mtpcheck
