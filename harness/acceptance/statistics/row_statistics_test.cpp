#include "harness/acceptance/statistics/row_statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "harness/acceptance/statistics/row_kernel.h"
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
  for (const std::size_t size : {1U, 2U, 15U, 16U, 17U, 288U, 511U, 513U, 4095U, 4097U, 8193U, 120832U}) {
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

// Rows are taken in blocks: what lies in different ones, or in one that is masked as a whole, must not matter.
TEST(RowStatistics, BlocksDoNotShow) {
  std::vector<float> target(3 * row_kernel::kBlock, 0.0F);
  std::vector<float> draft(target.size(), -kInfinity);
  target[5] = 20;
  target[2 * row_kernel::kBlock + 7] = 20;
  draft[2 * row_kernel::kBlock + 7] = -3;
  draft[row_kernel::kBlock - 1] = -4;
  const auto row = row_statistics(target, draft);
  EXPECT_TRUE(is_sound(row));
  EXPECT_EQ(row.target_argmax, 5U);
  EXPECT_EQ(row.target_margin, 0.0F);
  EXPECT_EQ(row.draft_argmax, 2 * row_kernel::kBlock + 7);
  EXPECT_EQ(row.draft_margin, 1.0F);
  EXPECT_NEAR(row.expected_acceptance, expected_acceptance(distribution(target), distribution(draft)), 1e-6);
}

std::vector<const row_kernel::Kernels*> kernels_of_this_machine() {
  std::vector<const row_kernel::Kernels*> kernels{&row_kernel::kBaseline};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0) kernels.push_back(&row_kernel::kAvx2);
  if (__builtin_cpu_supports("avx512dq") != 0) kernels.push_back(&row_kernel::kAvx512);
#endif
  return kernels;
}

TEST(RowKernels, EveryInstructionSetGivesExponentialsToThreeUnitsInTheLastPlace) {
  const auto logits = random_logits(row_kernel::kBlock + 37, 3, 9);
  for (const auto* kernels : kernels_of_this_machine()) {
    std::vector<float> exponentials(logits.size());
    std::vector<float> pivots(2);
    std::vector<float> sums(2);
    const auto top = kernels->scan(logits.data(), logits.size(), 0.8F, exponentials.data(), pivots.data(), sums.data());
    EXPECT_EQ(top.largest, *std::ranges::max_element(logits)) << kernels->name;
    std::vector<double> exact(2, 0.0);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const float x = (logits[i] - pivots[i / row_kernel::kBlock]) * 0.8F;
      const double value = std::exp(static_cast<double>(x));
      exact[i / row_kernel::kBlock] += value;
      EXPECT_NEAR(exponentials[i] / value, 1, 3 * 0x1p-23) << kernels->name << " at " << x;
    }
    for (std::size_t b = 0; b < 2; ++b) EXPECT_NEAR(sums[b] / exact[b], 1, 1e-6) << kernels->name;
  }
}

TEST(RowStatistics, NanAndEmptyRowsAreNotSound) {
  const std::vector<float> fine{0, 1, 2};
  EXPECT_FALSE(is_sound(row_statistics(std::vector<float>{0, std::nanf(""), 1}, fine)));
  EXPECT_FALSE(is_sound(row_statistics(fine, std::vector<float>{-kInfinity, -kInfinity, -kInfinity})));
  EXPECT_FALSE(is_sound(row_statistics(fine, std::vector<float>{0, kInfinity, 0})));
}

}  // namespace
}  // namespace mtpcheck
