#include "harness/loading/meaning/mtp_names.h"

#include <gtest/gtest.h>

namespace mtpcheck {
namespace {

TEST(MtpNames, BothFormsNameTheSameLayer) {
  const auto a = mtp_name("model.mtp_layers.1.mlp.gate.weight", 78);
  const auto b = mtp_name("model.layers.79.mlp.gate.weight", 78);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->layer, 1U);
  EXPECT_EQ(b->layer, 1U);
  EXPECT_EQ(a->rest, "mlp.gate.weight");
  EXPECT_EQ(b->rest, a->rest);
}

TEST(MtpNames, LayerNumbersMatchAsAWhole) {  // FAULTS N09
  EXPECT_FALSE(mtp_name("model.layers.7.mlp.gate.weight", 78));
  EXPECT_EQ(mtp_name("model.layers.780.mlp.gate.weight", 78)->layer, 702U);
  EXPECT_FALSE(mtp_name("model.layers.77.mlp.gate.weight", 78));
  EXPECT_FALSE(mtp_name("model.layers.78", 78));
  EXPECT_FALSE(mtp_name("model.layers.78.", 78));
  EXPECT_FALSE(mtp_name("model.layers.78x.mlp", 78));
  EXPECT_FALSE(mtp_name("model.layers..mlp", 78));
  EXPECT_FALSE(mtp_name("model.mtp_layers.-1.mlp", 78));
  EXPECT_FALSE(mtp_name("model.mtp_layers.99999999999999999999999.mlp", 78));
  EXPECT_FALSE(mtp_name("mtp.layers.0.enorm.weight", 78));
}

TEST(MtpNames, FourNamesOfAScale) {  // FAULTS Q01
  for (const char* name : {"a.b.weight_scale_inv", "a.b.weight_scale", "a.b.scale", "a.b_scale_inv", "a.b_scale"}) {
    EXPECT_EQ(stem_of_scale(name), "a.b") << name;
  }
  EXPECT_FALSE(stem_of_scale("a.b.weight"));
  EXPECT_FALSE(stem_of_scale(".scale"));
}

TEST(MtpNames, ScalesOfTheCacheAndOfActivationsAreOthers) {
  EXPECT_TRUE(is_kv_scale("self_attn.mla_attn.k_scale"));
  EXPECT_TRUE(is_kv_scale("self_attn.k_proj.k_scale"));
  EXPECT_TRUE(is_kv_scale("self_attn.prob_scale"));
  EXPECT_TRUE(is_kv_scale("self_attn.k_cache.scale"));
  EXPECT_FALSE(is_kv_scale("self_attn.q_a_proj.weight_scale"));
  EXPECT_FALSE(is_kv_scale("mlp.k_scale"));
  EXPECT_TRUE(is_input_scale("self_attn.o_proj.input_scale"));
  EXPECT_TRUE(is_input_scale("mlp.experts.gate_up_proj_input_scale"));
}

}  // namespace
}  // namespace mtpcheck
