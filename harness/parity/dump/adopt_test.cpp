#include "harness/parity/dump/adopt.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "harness/parity/dump/layout.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

/// 0, 1, 2, … in the given shape.
Tensor counting(Shape shape) {
  std::vector<float> values(elements_of(shape));
  std::iota(values.begin(), values.end(), 0.0f);
  return tensor_of<float>(std::move(shape), std::span<const float>(values));
}

std::vector<float> values(const Tensor& tensor) { return to_f32(tensor.view()); }

StageKey key(Stage stage) { return {stage, 0, {}}; }

const ExpectedStages kExpected = {
    {key(Stage::q_a), {4, 3}},
    {key(Stage::q_rope), {4, 2, 3}},
    {key(Stage::kv_a), {4, 2}},
    {key(Stage::logits), {4, 5}},
};

Adopted adopted(const Dump& dump, const nlohmann::json& mapping = nlohmann::json::object()) {
  return adopt(dump, Mapping(mapping, "map.json"), kExpected, {0, 4});
}

TEST(Adopt, ExactNamesAreTakenAsTheyAre) {
  const auto result = adopted({{"q_a", {{counting({4, 3})}}}, {"input_ids", {{counting({4})}}}});
  EXPECT_EQ(result.trace.size(), 1u);
  EXPECT_TRUE(result.unmatched.empty());
  EXPECT_TRUE(result.notes.empty());
}

TEST(Adopt, AStageThatIsNotComparedIsPassedOver) {
  const Dump dump{{"q_a", {{counting({4, 3})}}}, {"router_logits", {{counting({4, 8})}}}};
  const Mapping mapping(nlohmann::json::object(), "map.json");
  const auto wanted = [](Stage stage) { return stage != Stage::router_logits; };
  const auto result = adopt(dump, mapping, kExpected, {0, 4}, wanted);
  EXPECT_EQ(result.trace.size(), 1u);
  EXPECT_TRUE(result.unmatched.empty());
  EXPECT_EQ(adopted(dump).unmatched.size(), 1u);
}

TEST(Adopt, HeadsMergedSplitTurnedAndBatched) {
  EXPECT_EQ(values(adopted({{"q_rope", {{counting({4, 6})}}}}).trace.at(key(Stage::q_rope))),
            values(counting({4, 2, 3})));
  EXPECT_EQ(adopted({{"q_a", {{counting({1, 4, 3})}}}}).trace.at(key(Stage::q_a)).shape, (Shape{4, 3}));
  const auto turned = values(adopted({{"q_rope", {{counting({2, 4, 3})}}}}).trace.at(key(Stage::q_rope)));
  EXPECT_EQ(std::vector<float>(turned.begin(), turned.begin() + 6), (std::vector<float>{0, 1, 2, 12, 13, 14}));
}

TEST(Adopt, TheMappingSaysTheOrder) {
  const auto result =
      adopted({{"rope_out", {{counting({2, 3, 4})}}}}, {{"rope_out", {{"stage", "q_rope"}, {"order", {2, 0, 1}}}}});
  const auto found = values(result.trace.at(key(Stage::q_rope)));
  EXPECT_EQ(std::vector<float>(found.begin(), found.begin() + 6), (std::vector<float>{0, 4, 8, 12, 16, 20}));
}

TEST(Adopt, FusedProjectionsAreTakenApart) {
  const auto result = adopted({{"fused_qkv_a_proj", {{counting({4, 5})}}}}, {{"fused_qkv_a_proj", "q_a+kv_a"}});
  EXPECT_EQ(values(result.trace.at(key(Stage::kv_a))), (std::vector<float>{3, 4, 8, 9, 13, 14, 18, 19}));
  EXPECT_EQ(result.trace.at(key(Stage::q_a)).shape, (Shape{4, 3}));
}

TEST(Adopt, PaddedVocabularyAndTokensAreCutOff) {
  const auto result = adopted({{"logits", {{counting({6, 8})}}}});
  const Tensor& logits = result.trace.at(key(Stage::logits));
  EXPECT_EQ(logits.shape, (Shape{4, 5}));
  EXPECT_EQ(values(logits)[5], 8);
  EXPECT_EQ(result.notes.front(), "logits: 2 padded rows cut off, 3 padded vocabulary entries cut off");
}

TEST(Adopt, RanksAreJoinedWhereTheirExtentsAddUp) {
  const Tensor whole = counting({4, 2, 3});
  const auto sharded = adopted({{"q_rope", {{slice(whole, 1, 0, 1), slice(whole, 1, 1, 1)}}}});
  EXPECT_EQ(values(sharded.trace.at(key(Stage::q_rope))), values(whole));
  const auto replicated = adopted({{"q_a", {{counting({4, 3}), counting({4, 3})}}}});
  EXPECT_EQ(values(replicated.trace.at(key(Stage::q_a))), values(counting({4, 3})));
  Tensor partial = counting({4, 3});
  partial.bytes[0] = std::byte{1};
  const auto sum = adopted({{"q_a", {{counting({4, 3}), partial}}}});
  EXPECT_NE(sum.notes.front().find("do not add up"), std::string::npos);
}

TEST(Adopt, UnknownNamesComeWithASuggestion) {
  const auto result = adopted({{"model.layers.3.self_attn.q_a_proj", {{counting({4, 3})}}},
                               {"logitz", {{counting({4, 5})}}},
                               {"zzzzzzzzzz", {{counting({4, 2, 3})}}},
                               {"yyyyyyyyyy", {{counting({7})}}}});
  ASSERT_EQ(result.unmatched.size(), 4u);
  EXPECT_EQ(result.unmatched[0].suggestion, "logits");
  EXPECT_EQ(result.unmatched[1].suggestion, "q_a");
  EXPECT_EQ(result.unmatched[2].suggestion, "");
  EXPECT_EQ(result.unmatched[3].suggestion, "q_rope");
}

TEST(Adopt, WhatDoesNotFitIsKeptForTheVerdict) {
  const auto result = adopted({{"q_a", {{counting({5, 2})}}}});
  EXPECT_EQ(result.trace.at(key(Stage::q_a)).shape, (Shape{5, 2}));
  EXPECT_EQ(result.notes.front(), "q_a: shape [5, 2], expected [4, 3]");
}

TEST(Adopt, TwoTensorsForOneStageAreRefused) {
  EXPECT_THROW(adopted({{"q_a", {{counting({4, 3})}}}, {"other", {{counting({4, 3})}}}}, {{"other", "q_a"}}), Error);
}

TEST(Adopt, PackedRowsAreCutBySequence) {
  const ExpectedStages expected = {{{Stage::indexer_scores, 0, 0}, {1, 1}}, {{Stage::indexer_scores, 0, 1}, {2, 2}}};
  const auto result = adopt({{"indexer_scores", {{counting({3, 3})}}}}, {}, expected, {0, 1, 3});
  EXPECT_EQ(values(result.trace.at({Stage::indexer_scores, 0, 1})), (std::vector<float>{4, 5, 7, 8}));
}

TEST(Mapping, RefusesWhatIsNoStage) {
  EXPECT_THROW(Mapping({{"a", "q_ropes"}}, "map.json"), Error);
  EXPECT_THROW(Mapping({{"a", 3}}, "map.json"), Error);
  EXPECT_THROW(Mapping({{"a", {{"stage", "q"}, {"order", {0, 0}}}}}, "map.json"), Error);
  EXPECT_EQ(Mapping({{"debug.*", nullptr}}, "map.json").match("debug.x").kind, Mapping::Kind::ignored);
}

}  // namespace
}  // namespace mtpcheck
