#include "harness/loading/vllm/quantisation/patterns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/loading/formats/compressed_tensors.h"
#include "harness/loading/symbolic/raised.h"
#include "reference/tensor/error.h"

namespace mtpcheck::vllm {
namespace {

using List = std::vector<std::string>;

const std::string kGate = "model.layers.3.self_attn.linear_gate";
const std::string kFused = "model.layers.3.self_attn.fused_qkv_a_proj";
const std::string kExperts = "model.layers.3.mlp.experts";

TEST(Fnmatch, KnowsStarsQuestionMarksAndBrackets) {
  EXPECT_TRUE(fnmatch("abc", "a*c"));
  EXPECT_TRUE(fnmatch("abc", "*"));
  EXPECT_TRUE(fnmatch("abc", "a?[a-c]"));
  EXPECT_TRUE(fnmatch("abc", "[!x]bc"));
  EXPECT_TRUE(fnmatch("aXbXc", "a*b*c"));
  EXPECT_TRUE(fnmatch("a[b", "a[b"));
  EXPECT_FALSE(fnmatch("abc", "a*b"));
  EXPECT_FALSE(fnmatch("abc", "ab"));
  EXPECT_FALSE(fnmatch("", "?"));
  EXPECT_TRUE(fnmatch("", "**"));
}

TEST(Exclusions, OfFp8AreWholeNames) {
  EXPECT_TRUE(is_layer_skipped(kGate, List{kGate}));
  EXPECT_FALSE(is_layer_skipped(kGate, List{kGate + "*"}));
  EXPECT_FALSE(is_layer_skipped(kGate, List{"self_attn.linear_gate"}));
  EXPECT_FALSE(is_layer_skipped(kGate, List{"model.layers.3"}));
}

TEST(Exclusions, OfAFusedModuleNeedEveryProjectionOrItsOwnName) {
  const std::string attention = "model.layers.3.self_attn.";
  EXPECT_TRUE(is_layer_skipped(kFused, List{kFused}));
  EXPECT_TRUE(is_layer_skipped(kFused, List{attention + "kv_a_proj_with_mqa", attention + "q_a_proj"}));
  EXPECT_THROW(is_layer_skipped(kFused, List{attention + "q_a_proj"}), Raised);
}

TEST(Exclusions, OneExpertExcludesThemAll) {
  EXPECT_TRUE(is_layer_skipped(kExperts, List{kExperts + ".0.gate_proj"}));
  EXPECT_FALSE(is_layer_skipped(kExperts, List{"model.layers.30.mlp.experts"}));
}

TEST(Exclusions, OfModelOptMatchPartsAndFilePatterns) {
  EXPECT_TRUE(is_excluded_by_modelopt(kGate, List{"*linear_gate*"}));
  EXPECT_TRUE(is_excluded_by_modelopt(kGate, List{"linear_gate"}));
  EXPECT_TRUE(is_excluded_by_modelopt("model.layers.10.self_attn.o_proj", List{"model.layers.1"}));
  EXPECT_FALSE(is_excluded_by_modelopt(kGate, List{"model.mtp_layers.*.self_attn.linear_gate"}));
  EXPECT_FALSE(is_excluded_by_modelopt(kGate, List{}));
}

TEST(Exclusions, OfCompressedTensorsMayBeRegularExpressions) {
  EXPECT_TRUE(is_ignored_by_compressed_tensors(kGate, List{"re:.*linear_gate"}));
  EXPECT_FALSE(is_ignored_by_compressed_tensors(kGate, List{"re:linear_gate"}));
  EXPECT_FALSE(is_ignored_by_compressed_tensors(kGate, List{"re:.*mtp_layers\\.0\\.self_attn\\.linear_gate"}));
  EXPECT_TRUE(is_ignored_by_compressed_tensors(kFused, List{"re:.*q_a_proj$", "re:.*kv_a_proj"}));
  EXPECT_THROW(is_ignored_by_compressed_tensors(kFused, List{"re:.*q_a_proj$"}), Raised);
  EXPECT_THROW(is_ignored_by_compressed_tensors(kGate, List{"re:("}), Error);
}

TEST(Exclusions, AreTranslatedFromTheExactPrefixOnly) {
  List list{"lm_head", "model.mtp_layers.0.self_attn.linear_gate", "mtp_layers.0.eh_proj", "model.mtp_layers.0",
            "model.mtp_layers.1.mlp.gate*"};
  EXPECT_THAT(translate_exclusions(list, 78, 1), testing::ElementsAre("model.layers.78.self_attn.linear_gate"));
  EXPECT_EQ(list.size(), 6U);
  EXPECT_THAT(translate_exclusions(list, 78, 2),
              testing::ElementsAre("model.layers.78.self_attn.linear_gate", "model.layers.79.mlp.gate*"));
}

TEST(Exclusions, ATrailingStarBecomesTwoEntries) {
  EXPECT_THAT(split_trailing_stars(List{"a.b*", "a.*", "*", "c"}),
              testing::ElementsAre("a.b", "a.b.*", "a.*", "*", "c"));
}

}  // namespace
}  // namespace mtpcheck::vllm
