#include "harness/loading/vllm/names.h"

#include <gtest/gtest.h>

namespace mtpcheck::vllm {
namespace {

std::string draft(std::string_view tensor, std::size_t layers = 78, std::size_t nextn = 1) {
  const auto layer = mtp_layer_name(tensor, layers, nextn);
  if (!layer) return "ignored";
  return draft_name(*layer).value_or("skipped");
}

TEST(Names, BothLayerFormsMeetInOne) {
  EXPECT_EQ(draft("model.mtp_layers.0.self_attn.o_proj.weight"), "model.layers.78.mtp_block.self_attn.o_proj.weight");
  EXPECT_EQ(draft("model.layers.78.self_attn.o_proj.weight"), "model.layers.78.mtp_block.self_attn.o_proj.weight");
}

TEST(Names, WhatBelongsToTheLayerStaysOutsideTheBlock) {
  for (const char* name : {"enorm.weight", "hnorm.weight", "eh_proj.weight", "final_layernorm.weight"}) {
    EXPECT_EQ(draft(std::string("model.mtp_layers.0.") + name), std::string("model.layers.78.") + name);
  }
  EXPECT_EQ(draft("model.mtp_layers.0.input_layernorm.weight"), "model.layers.78.mtp_block.input_layernorm.weight");
}

TEST(Names, LayerNumbersAreExact) {
  EXPECT_EQ(draft("model.layers.780.enorm.weight"), "ignored");
  EXPECT_EQ(draft("model.layers.7.enorm.weight"), "ignored");
  EXPECT_EQ(draft("model.layers.078.enorm.weight"), "ignored");
  EXPECT_EQ(draft("model.layers.1.enorm.weight", 10), "ignored");
}

TEST(Names, OneLayerFewerThanDeclaredIsAcceptedByNumber) {
  EXPECT_EQ(draft("model.layers.79.enorm.weight", 78, 2), "ignored");
  EXPECT_EQ(draft("model.layers.79.enorm.weight", 78, 3), "model.layers.79.enorm.weight");
  EXPECT_EQ(draft("model.layers.80.enorm.weight", 78, 3), "ignored");
  EXPECT_EQ(draft("model.layers.78.enorm.weight", 78, 0), "ignored");
  EXPECT_EQ(draft("model.mtp_layers.5.enorm.weight", 78, 0), "model.layers.83.enorm.weight");
}

TEST(Names, EmbeddingAndHeadOfTheLayerAreSkipped) {
  EXPECT_EQ(draft("model.mtp_layers.0.embed_tokens.weight"), "skipped");
  EXPECT_EQ(draft("model.mtp_layers.0.shared_head.norm.weight"), "skipped");
}

TEST(Names, OtherPrefixesAreNotTheHeads) {
  for (const char* name : {"mtp.layers.0.enorm.weight", "language_model.model.mtp_layers.0.enorm.weight",
                           "model.mtp_layers.x.enorm.weight", "model.mtp_layers.0", "model.norm.weight"}) {
    EXPECT_EQ(draft(name), "ignored") << name;
  }
}

TEST(Names, TheHeadOfTheTargetFeedsTheFirstLayer) {
  EXPECT_EQ(shared_target("lm_head.weight", 78), "model.layers.78.shared_head.head.weight");
  EXPECT_EQ(shared_target("model.embed_tokens.weight", 78), "model.embed_tokens.weight");
  EXPECT_FALSE(shared_target("lm_head.weight_scale", 78));
}

TEST(Names, KvScalesAreSentWhereNoParameterIs) {
  const std::string block = "model.layers.3.mtp_block";
  EXPECT_EQ(kv_scale_target(block + ".self_attn.k_proj.k_scale", true), block + ".self_attn.mla_attn.mla_attn.k_scale");
  EXPECT_EQ(kv_scale_target(block + ".self_attn.k_proj.k_scale", false), block + ".self_attn.attn.k_scale");
  EXPECT_EQ(kv_scale_target(block + ".self_attn.v_scale", true), block + ".self_attn.attn.v_scale");
  EXPECT_EQ(kv_scale_target(block + ".self_attn.k_cache.scale", true), block + ".self_attn.attn.k_scale");
  EXPECT_EQ(kv_scale_target(block + ".self_attn.q.scale", true), block + ".self_attn.attn.q_scale");
  EXPECT_EQ(kv_scale_target(block + ".self_attn.k_zero_point", true), block + ".self_attn.attn.k_zero_point");
  EXPECT_FALSE(kv_scale_target(block + ".self_attn.prob_scale", true));
  EXPECT_FALSE(kv_scale_target(block + ".mlp.down_proj.weight_scale", true));
}

TEST(Names, AKvScaleThatTheModelHasUnderItsOwnNameIsTaken) {
  const std::string name = "model.layers.3.mtp_block.self_attn.mla_attn.k_scale";
  const auto kept = remap_kv_scale(name, true, [&](const std::string& other) { return other == name; });
  EXPECT_EQ(kept.name, name);
  const auto lost = remap_kv_scale(name, true, [](const std::string&) { return false; });
  EXPECT_FALSE(lost.name);
  EXPECT_NE(lost.warning.find("k_scale is not loaded."), std::string::npos);
}

}  // namespace
}  // namespace mtpcheck::vllm
