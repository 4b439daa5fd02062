#include "harness/parity/stage/stage_errors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace mtpcheck {
namespace {

constexpr std::size_t kRows = 50;
constexpr std::size_t kColumns = 20;

struct Sides {
  std::vector<double> truth, rounded, candidate;
};

/// Truth of magnitude about 1, its rounding to float32, and a candidate with an error of the same size.
Sides clean() {
  Sides sides;
  for (std::size_t i = 0; i < kRows * kColumns; ++i) {
    const double value = std::sin(1.7 * static_cast<double>(i)) + 1e-9 * static_cast<double>(i % 7);
    sides.truth.push_back(value);
    sides.rounded.push_back(static_cast<float>(value));
    sides.candidate.push_back(value + 1.5 * (static_cast<float>(value) - value));
  }
  return sides;
}

reports::ErrorRecord judged(const Sides& sides, Stage stage = Stage::enorm, Shape shape = {kRows, kColumns}) {
  const Tensor truth = tensor_of<double>(shape, sides.truth);
  const Tensor rounded = tensor_of<double>(shape, sides.rounded);
  const Tensor candidate = tensor_of<double>(shape, sides.candidate);
  return stage_errors(stage, candidate.view(), truth.view(), noise_of(stage, rounded.view(), truth.view()), Tolerance{})
      .record;
}

TEST(StageErrors, RoundingPasses) {
  const auto record = judged(clean());
  EXPECT_TRUE(record.pass) << record.reason;
  EXPECT_GT(record.allowance_used, 0);
  EXPECT_LT(record.allowance_used, 1);
}

TEST(StageErrors, NaNNeverPassesNotEvenOnBothSides) {
  Sides sides = clean();
  sides.truth[3] = sides.candidate[3] = sides.rounded[3] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(judged(sides).pass);
  EXPECT_EQ(judged(sides).mask_mismatches, 1);
}

TEST(StageErrors, TheSameInfinityOnBothSidesPasses) {
  Sides sides = clean();
  sides.truth[3] = sides.candidate[3] = sides.rounded[3] = -std::numeric_limits<double>::infinity();
  EXPECT_TRUE(judged(sides).pass) << judged(sides).reason;
  sides.candidate[3] = -1e30;
  EXPECT_FALSE(judged(sides).pass);
}

TEST(StageErrors, ZerosDoNotPassForSmallNumbers) {
  Sides sides = clean();
  for (std::size_t i = 0; i < sides.truth.size(); ++i) {
    sides.truth[i] *= 1e-30;
    sides.rounded[i] = 3e-30;  // so noisy that the error alone would be allowed
    sides.candidate[i] = 0;
  }
  const auto record = judged(sides);
  EXPECT_LE(record.rms, record.allowance);
  EXPECT_FALSE(record.pass);
  EXPECT_NE(record.reason.find("all zero"), std::string::npos);
}

TEST(StageErrors, OneBrokenRowFailsThoughTheStageAsAWholeIsWithin) {
  Sides sides = clean();
  for (std::size_t i = 0; i < kColumns; ++i) {  // one enormous row makes the stage's allowance enormous
    sides.truth[i] *= 1e9;
    sides.rounded[i] = sides.truth[i] + 1;
    sides.candidate[i] = sides.truth[i];
  }
  for (std::size_t i = 0; i < kColumns; ++i) sides.candidate[7 * kColumns + i] = 0;
  const auto record = judged(sides);
  EXPECT_LE(record.rms, record.allowance);
  EXPECT_FALSE(record.pass);
  EXPECT_EQ(record.worst_row, 7);
}

TEST(StageErrors, HeadsOfTheProbabilitiesAreTokensTogether) {
  const Sides sides = clean();
  const Tensor truth = tensor_of<double>({5, 10, kColumns}, std::span<const double>(sides.truth));
  const auto errors = stage_errors(Stage::attn_probs, truth.view(), truth.view(),
                                   noise_of(Stage::attn_probs, truth.view(), truth.view()), Tolerance{});
  EXPECT_EQ(errors.profile.token_rms.size(), 10u);
  EXPECT_EQ(tokens_of(Stage::attn_probs, truth.shape), 10u);
  EXPECT_TRUE(errors.record.pass);
}

TEST(Tolerance, FewTokensAreAllowedMore) {
  const std::vector<double> even(4, 2.5);
  EXPECT_DOUBLE_EQ(few_tokens_factor(even), 2);
  const std::vector<double> one_loud = {1, 0, 0, 0};
  EXPECT_DOUBLE_EQ(few_tokens_factor(one_loud), 3);
  EXPECT_DOUBLE_EQ(few_tokens_factor({}), 1);
}

TEST(StageErrors, NoiseKnownFromElsewhereCountsWhereItIsLarger) {
  Sides sides = clean();
  sides.rounded = sides.truth;
  for (double& value : sides.candidate) value *= 1 + 1e-5;
  const Tensor truth = tensor_of<double>({kRows, kColumns}, sides.truth);
  const Tensor candidate = tensor_of<double>({kRows, kColumns}, sides.candidate);
  const StageNoise none = noise_of(Stage::enorm, truth.view(), truth.view());
  const auto judged_with = [&](double noise) {
    return stage_errors(Stage::enorm, candidate.view(), truth.view(), none, Tolerance{}, noise).record.pass;
  };
  EXPECT_FALSE(judged_with(0));
  EXPECT_TRUE(judged_with(1e-5));
}

TEST(Tolerance, UlpIsTheStepOfTheType) {
  EXPECT_EQ(ulp(Dtype::f32, 1.0), std::ldexp(1.0, -23));
  EXPECT_EQ(ulp(Dtype::bf16, 3.9), std::ldexp(1.0, -6));
  EXPECT_EQ(ulp(Dtype::f16, 1e-9), std::ldexp(1.0, -24));
  EXPECT_EQ(ulp(Dtype::f32, 0), 0);
  EXPECT_EQ(used(0, 0), 0);
  EXPECT_TRUE(std::isinf(used(1, 0)));
}

}  // namespace
}  // namespace mtpcheck
