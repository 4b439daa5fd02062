#include "reference/head/rounding_points.h"

#include <gtest/gtest.h>

#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

TEST(RoundingPoints, TheTableIsInTheOrderOfTheEnumeration) {
  std::size_t index = 0;
  for (const auto& row : all_rounding_points()) EXPECT_EQ(static_cast<std::size_t>(row.point), index++);
  EXPECT_EQ(index, kRoundingPoints);
}

TEST(RoundingPoints, ExactRunsRoundNowhere) {
  for (const auto precision : {Precision::f64, Precision::f32}) {
    const auto plan = rounding_plan(precision, "transformers");
    EXPECT_TRUE(plan.points.none());
    EXPECT_EQ(plan.format, Format::exact);
    EXPECT_EQ(plan.attention, AttentionForm::expanded);
  }
}

TEST(RoundingPoints, EnginesKeepProbabilitiesDifferently) {
  const auto vllm = rounding_plan(Precision::bf16, "vllm");
  EXPECT_EQ(vllm.format_at(RoundingPoint::exponentials), Format::bf16);
  EXPECT_EQ(vllm.format_at(RoundingPoint::probabilities), Format::exact);
  EXPECT_TRUE(vllm.norm_reads_wide_residual);
  const auto transformers = rounding_plan(Precision::f16, "transformers");
  EXPECT_EQ(transformers.format_at(RoundingPoint::probabilities), Format::f16);
  EXPECT_EQ(transformers.format_at(RoundingPoint::exponentials), Format::exact);
  EXPECT_THROW(rounding_plan(Precision::bf16, "trt"), Error);
}

TEST(RoundingPoints, WhatEnginesKeepInFloat32HasNone) {
  for (const Stage stage : {Stage::router_logits, Stage::topk_weights, Stage::logits, Stage::indexer_scores}) {
    EXPECT_FALSE(rounding_point_of(stage));
  }
  EXPECT_EQ(rounding_point_of(Stage::residual1), RoundingPoint::residual);
}

TEST(Precision, NamesRoundTrip) {
  for (const auto precision : {Precision::f64, Precision::f32, Precision::bf16, Precision::f16}) {
    EXPECT_EQ(precision_from_name(to_string(precision)), precision);
  }
  EXPECT_FALSE(precision_from_name("fp8"));
}

}  // namespace
}  // namespace mtpcheck
