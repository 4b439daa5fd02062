#include "reference/protocol/distribution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const std::vector<float> kLogits{1.0F, 3.0F, 2.0F, 3.0F, -kInf};

TEST(Argmax, TakesTheFirstOfEquals) { EXPECT_EQ(argmax(kLogits), 1U); }

TEST(Argmax, NanAndAllMinusInfinityAreErrors) {
  EXPECT_THROW(argmax(std::vector<float>{0.0F, std::nanf("")}), Error);
  EXPECT_THROW(argmax(std::vector<float>{-kInf, -kInf}), Error);
}

TEST(Distribution, TemperatureZeroIsGreedy) {
  EXPECT_EQ(distribution(kLogits, {.temperature = 0}), (Distribution{0, 1, 0, 0, 0}));
}

TEST(Distribution, TemperatureDividesTheLogits) {
  const auto warm = distribution(std::vector<float>{0.0F, 2.0F}, {.temperature = 2});
  EXPECT_NEAR(warm[1] / warm[0], std::exp(1.0), 1e-14);
}

TEST(Distribution, TopKKeepsTheLargestAndBreaksTiesByTheLowestIndex) {
  const auto kept = distribution(kLogits, {.top_k = 1});
  EXPECT_EQ(kept, (Distribution{0, 1, 0, 0, 0}));
  const auto two = distribution(kLogits, {.top_k = 2});
  EXPECT_EQ(two, (Distribution{0, 0.5, 0, 0.5, 0}));
}

TEST(Distribution, TopPKeepsTheSmallestSetThatReachesIt) {
  const std::vector<float> logits{std::log(0.5F), std::log(0.3F), std::log(0.2F)};
  EXPECT_EQ(distribution(logits, {.top_p = 0.4})[1], 0.0);
  const auto two = distribution(logits, {.top_p = 0.7});
  EXPECT_NEAR(two[0], 0.625, 1e-7);
  EXPECT_EQ(two[2], 0.0);
}

TEST(Distribution, MinPIsRelativeToTheLargest) {
  const std::vector<float> logits{std::log(0.5F), std::log(0.3F), std::log(0.2F)};
  const auto kept = distribution(logits, {.min_p = 0.5});
  EXPECT_EQ(kept[2], 0.0);
  EXPECT_GT(kept[1], 0.0);
}

TEST(Distribution, ParametersOutOfRangeAreUsageErrors) {
  for (const SamplingParameters& bad : {SamplingParameters{.temperature = -1}, SamplingParameters{.top_p = 0},
                                        SamplingParameters{.top_p = 1.5}, SamplingParameters{.min_p = 2}}) {
    try {
      distribution(kLogits, bad);
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.failure(), Failure::usage);
    }
  }
}

TEST(Sample, InvertsTheCumulativeSumAndNeverTakesAnImpossibleToken) {
  const Distribution p{0.0, 0.25, 0.0, 0.75, 0.0};
  EXPECT_EQ(sample(p, 0.0), 1U);
  EXPECT_EQ(sample(p, std::nextafter(0.25, 0.0)), 1U);
  EXPECT_EQ(sample(p, 0.25), 3U);
  EXPECT_EQ(sample(p, std::nextafter(1.0, 0.0)), 3U);
}

}  // namespace
}  // namespace mtpcheck
