#include "harness/parity/metrics/distribution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "harness/parity/metrics/logit_agreement.h"
#include "harness/parity/metrics/worst_elements.h"

namespace mtpcheck {
namespace {

Tensor floats(Shape shape, const std::vector<float>& values) { return tensor_of<float>(std::move(shape), values); }

TEST(Distribution, CountsByHand) {
  const Tensor reference = floats({5}, {1, -1, 0, 2, 100});
  const Tensor candidate = floats({5}, {1.5, 1, 0, 2, 100});
  const auto record = distribution(candidate.view(), reference.view());
  EXPECT_EQ(record.sign_flips, 1);
  EXPECT_DOUBLE_EQ(record.reference_zeros, 0.2);
  EXPECT_DOUBLE_EQ(record.candidate_zeros, 0.2);
  EXPECT_DOUBLE_EQ(record.relative_p50, 0);  // 0 0 0.5 2, of four
  EXPECT_DOUBLE_EQ(record.relative_p999, 2);
  EXPECT_EQ(std::accumulate(record.histogram.begin(), record.histogram.end(), 0), 5);
  EXPECT_EQ(record.histogram[0], 3);
}

TEST(Distribution, UlpsAreStepsOfTheType) {
  EXPECT_EQ(ulp_distance(Dtype::bf16, 1.0, 1.0078125), 1);
  EXPECT_EQ(ulp_distance(Dtype::f32, 1.0, 1.0 + 1.0 / (1 << 23)), 1);
  EXPECT_EQ(ulp_distance(Dtype::f16, -0.0, 0.0), 0);
  EXPECT_EQ(ulp_distance(Dtype::f16, -5.9604644775390625e-8, 5.9604644775390625e-8), 2);  // across zero
}

TEST(LogitAgreement, CountsByHand) {
  const Tensor reference = floats({2, 3}, {0, 0, 0, 1, 2, 3});
  const Tensor candidate = floats({2, 3}, {0, 0, 0, 3, 2, 1});
  const auto record = logit_agreement(candidate.view(), reference.view());
  EXPECT_DOUBLE_EQ(record.top1_agreement, 0.5);  // equal logits: the lowest index on both sides
  EXPECT_DOUBLE_EQ(record.top5_agreement, 1);
  EXPECT_EQ(record.kl_max_row, 1);
  const double normaliser = std::exp(1.0) + std::exp(2.0) + std::exp(3.0);
  EXPECT_NEAR(record.kl_max, (std::exp(3.0) * 2 - std::exp(1.0) * 2) / normaliser, 1e-12);
}

TEST(LogitAgreement, ANaNRowDivergesWithoutEnd) {
  const Tensor reference = floats({1, 2}, {0, 1});
  const Tensor candidate = floats({1, 2}, {0, std::numeric_limits<float>::quiet_NaN()});
  EXPECT_TRUE(std::isinf(logit_agreement(candidate.view(), reference.view()).kl_max));
}

TEST(WorstElements, HaveCoordinatesAndPutNaNFirst) {
  const Tensor reference = floats({2, 3}, {0, 1, 2, 3, 4, 5});
  const Tensor candidate = floats({2, 3}, {0, 1, 2.5, std::numeric_limits<float>::quiet_NaN(), 4, 6});
  const auto worst = worst_elements(candidate.view(), reference.view(), 10);
  ASSERT_EQ(worst.size(), 3u);
  EXPECT_EQ(worst[0].coordinates, (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(worst[1].coordinates, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(worst[1].reference, 5);
  EXPECT_EQ(worst[1].candidate, 6);
  const auto channels = channel_errors(candidate.view(), reference.view());
  EXPECT_EQ(channels[1], 0);
  EXPECT_DOUBLE_EQ(channels[2], std::sqrt((0.25 + 1) / 2));
}

}  // namespace
}  // namespace mtpcheck
