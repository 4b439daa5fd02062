#include "harness/acceptance/statistics/bootstrap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "reference/random/philox.h"

namespace mtpcheck {
namespace {

TEST(RatioOfSums, IsNotAMeanOfRatios) {
  const std::vector<SequenceSums> sequences{{1, 1}, {0, 9}};
  EXPECT_DOUBLE_EQ(ratio_of_sums(sequences), 0.1);
}

// Coverage of the interval itself: sequences drawn from a known rate, 200 times; 95 % nominal, at least 88 % asked.
TEST(BootstrapInterval, CoversTheTrueRate) {
  constexpr double kRate = 0.7;
  int covered = 0;
  for (std::uint64_t study = 0; study < 200; ++study) {
    std::vector<SequenceSums> sequences(30);
    for (std::size_t s = 0; s < sequences.size(); ++s) {
      const RandomStream stream(study, s);
      sequences[s].denominator = 40;
      for (std::uint64_t row = 0; row < 40; ++row) sequences[s].numerator += stream.uniform(row) < kRate ? 1 : 0;
    }
    const ConfidenceInterval interval = bootstrap_interval(sequences, study, 400);
    covered += interval.low <= kRate && kRate <= interval.high ? 1 : 0;
  }
  EXPECT_GE(covered, 176);
}

TEST(BootstrapInterval, OfEqualSequencesHasNoWidth) {
  const std::vector<SequenceSums> sequences(5, {3, 4});
  const ConfidenceInterval interval = bootstrap_interval(sequences, 1);
  EXPECT_DOUBLE_EQ(interval.low, 0.75);
  EXPECT_DOUBLE_EQ(interval.high, 0.75);
}

TEST(PairedBootstrapInterval, SeesADifferenceThatUnpairedIntervalsHide) {
  std::vector<SequenceSums> a;
  std::vector<SequenceSums> b;
  for (int s = 0; s < 20; ++s) {
    a.push_back({static_cast<double>(s), 20});  // sequences differ wildly, heads by one row each
    b.push_back({static_cast<double>(s + 1), 20});
  }
  const ConfidenceInterval paired = paired_bootstrap_interval(a, b, 3);
  EXPECT_NEAR(paired.low, 0.05, 1e-12);
  EXPECT_NEAR(paired.high, 0.05, 1e-12);
  EXPECT_GT(bootstrap_interval(b, 3).low, 0.0);
  EXPECT_LT(bootstrap_interval(b, 3).low, ratio_of_sums(a));
}

// With n equal differences only the two patterns of equal signs reach the observed sum: p = 2 / 2^n.
TEST(SignFlip, ExactValueByEnumeration) {
  EXPECT_DOUBLE_EQ(sign_flip_p_value(std::vector<double>(5, 1.0), 1), 2.0 / 32);
  EXPECT_DOUBLE_EQ(sign_flip_p_value(std::vector<double>{1, -1}, 1), 1.0);
}

TEST(SignFlip, SamplesWhereEnumerationIsTooMuch) {
  EXPECT_LT(sign_flip_p_value(std::vector<double>(40, 0.5), 1), 1e-3);
  std::vector<double> balanced;
  for (int i = 0; i < 40; ++i) balanced.push_back(i % 2 == 0 ? 1.0 : -1.0);
  EXPECT_GT(sign_flip_p_value(balanced, 1), 0.5);
}

}  // namespace
}  // namespace mtpcheck
