#include "harness/parity/metrics/selection.h"

#include <gtest/gtest.h>

#include <limits>

namespace mtpcheck {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

SelectionComparison compared(std::vector<std::int32_t> candidate, std::vector<std::int32_t> reference, ScoredRow row) {
  const std::vector<ScoredRow> rows{std::move(row)};
  return compare_selections({std::move(candidate)}, {std::move(reference)}, rows);
}

TEST(Selection, OrderAndPaddingDoNotMatter) {
  const auto result = compared({2, 0, -1}, {0, 2, -1, -1}, {{1, 0, 3}, 0});
  EXPECT_EQ(result.record.flipped_rows, 0);
  EXPECT_EQ(result.record.jaccard_mean, 1);
}

TEST(Selection, ATieIsExcusedAndItsJaccardTold) {
  const auto result = compared({3, 1}, {3, 0}, {{0.0, 0.0, 0.0, 5.0}, 0});
  EXPECT_EQ(result.record.excused_rows, 1);
  EXPECT_TRUE(result.excused[0]);
  EXPECT_DOUBLE_EQ(result.record.jaccard_min, 1.0 / 3);
}

TEST(Selection, ALeadAboveTheNoiseIsNot) {
  EXPECT_EQ(compared({1}, {0}, {{1.0, 0.9}, 0.11}).record.excused_rows, 1);
  const auto result = compared({1}, {0}, {{1.0, 0.9}, 0.09});
  EXPECT_EQ(result.record.unexcused_rows, 1);
  EXPECT_NEAR(result.record.worst_margin, 0.1, 1e-15);
  EXPECT_TRUE(result.possible[0]);
}

TEST(Selection, ImpossibleChoicesAreNeverExcused) {
  const ScoredRow row{{1, 1, kNever}, 1e9};
  EXPECT_EQ(compared({0, 2}, {0, 1}, row).record.unexcused_rows, 1);  // not causal
  EXPECT_EQ(compared({0, 7}, {0, 1}, row).record.unexcused_rows, 1);  // no such key
  EXPECT_EQ(compared({0, 0}, {0, 1}, row).record.unexcused_rows, 1);  // twice
  EXPECT_EQ(compared({0}, {0, 1}, row).record.unexcused_rows, 1);     // too few
  EXPECT_FALSE(compared({0, 2}, {0, 1}, row).possible[0]);
}

TEST(Selection, NaNScoresExcuseNothing) {
  const auto result = compared({1}, {0}, {{std::numeric_limits<double>::quiet_NaN(), 0.5}, 1});
  EXPECT_EQ(result.record.unexcused_rows, 1);
}

}  // namespace
}  // namespace mtpcheck
