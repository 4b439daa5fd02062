#include "harness/acceptance/statistics/row_statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "reference/protocol/distribution.h"
#include "reference/random/philox.h"

namespace mtpcheck {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> random_logits(std::size_t size, std::uint64_t seed, double spread) {
  const RandomStream stream(seed, 0);
  std::vector<float> logits(size);
  for (std::size_t i = 0; i < size; ++i) logits[i] = static_cast<float>(spread * stream.normal(i));
  return logits;
}

// The float64 softmax of reference/protocol is the definition.
TEST(RowStatistics, AgreesWithTheFloat64Definition) {
  for (const std::size_t size : {1U, 2U, 15U, 16U, 17U, 288U, 511U, 513U, 120832U}) {
    for (const double temperature : {0.3, 1.0, 1.7}) {
      const auto target = random_logits(size, 1, 4);
      const auto draft = random_logits(size, 2, 4);
      const auto p = distribution(target, {.temperature = temperature});
      const auto q = distribution(draft, {.temperature = temperature});
      const auto row = row_statistics(target, draft, temperature);
      EXPECT_NEAR(row.expected_acceptance, expected_acceptance(p, q), 2e-6) << size << " at " << temperature;
      EXPECT_EQ(row.target_argmax, argmax(target));
      EXPECT_EQ(row.draft_argmax, argmax(draft));
      const std::size_t token = size / 2;
      EXPECT_NEAR(probability(target, token, row.target_log_normaliser, temperature), p[token], 1e-6);
      EXPECT_NEAR(probability(draft, token, row.draft_log_normaliser, temperature), q[token], 1e-6);
    }
  }
}

TEST(RowStatistics, TiesGoToTheLowestIndexWithMarginZero) {
  const auto row = row_statistics(std::vector<float>{1, 5, 5, 0}, std::vector<float>{7, 7, 7, 9});
  EXPECT_EQ(row.target_argmax, 1U);
  EXPECT_EQ(row.target_margin, 0.0F);
  EXPECT_EQ(row.draft_margin, 2.0F);
}

TEST(RowStatistics, MaskedTokensHaveNoProbability) {
  const auto row = row_statistics(std::vector<float>{0, -kInfinity, 0}, std::vector<float>{-kInfinity, 0, 0});
  EXPECT_NEAR(row.expected_acceptance, 0.5, 1e-7);
  EXPECT_TRUE(is_sound(row));
}

TEST(RowStatistics, NanAndEmptyRowsAreNotSound) {
  const std::vector<float> fine{0, 1, 2};
  EXPECT_FALSE(is_sound(row_statistics(std::vector<float>{0, std::nanf(""), 1}, fine)));
  EXPECT_FALSE(is_sound(row_statistics(fine, std::vector<float>{-kInfinity, -kInfinity, -kInfinity})));
  EXPECT_FALSE(is_sound(row_statistics(fine, std::vector<float>{0, kInfinity, 0})));
}

}  // namespace
}  // namespace mtpcheck
