#include "harness/loading/plan/coverage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtpcheck {
namespace {

// One parameter [experts, rows, cols] and copies into it.
LoadPlan plan_of(Extents extents, const std::vector<Box>& boxes) {
  LoadPlan plan;
  plan.parameters.push_back({.name = "w13", .extents = extents});
  for (const Box& box : boxes) plan.writes.push_back({.box = box});
  return plan;
}

TEST(Coverage, OfNothingIsAllMissing) {
  const Coverage coverage = coverage_of(plan_of({2, 3, 4}, {}), 0);
  EXPECT_EQ(coverage.elements, 24U);
  EXPECT_EQ(coverage.written, 0U);
  EXPECT_THAT(coverage.missing, testing::ElementsAre(Box{{0, 2}, {0, 3}, {0, 4}}));
}

TEST(Coverage, NamesTheHalfOfOneExpertThatNobodyWrote) {
  const Box gates{{0, 1}, {0, 2}, {0, 4}};
  const Coverage coverage =
      coverage_of(plan_of({2, 4, 4}, {gates, {{0, 1}, {2, 4}, {0, 4}}, {{1, 2}, {0, 2}, {0, 4}}}), 0);
  EXPECT_EQ(coverage.written, 24U);
  EXPECT_THAT(coverage.missing, testing::ElementsAre(Box{{1, 2}, {2, 4}, {0, 4}}));
  EXPECT_TRUE(coverage.overwritten.empty());
}

TEST(Coverage, TheLastWriteIsSeenAndTheEarlierNamed) {
  const Box whole{{0, 1}, {0, 4}, {0, 1}};
  const Box half{{0, 1}, {2, 4}, {0, 1}};
  const Coverage coverage = coverage_of(plan_of({1, 4, 1}, {whole, half}), 0);
  EXPECT_TRUE(coverage.complete());
  ASSERT_EQ(coverage.visible.size(), 2U);
  EXPECT_EQ(coverage.visible[0].box, (Box{{0, 1}, {0, 2}, {0, 1}}));
  EXPECT_EQ(coverage.visible[0].write, 0U);
  EXPECT_EQ(coverage.visible[1].box, half);
  ASSERT_EQ(coverage.overwritten.size(), 1U);
  EXPECT_EQ(coverage.overwritten[0].box, half);
  EXPECT_EQ(coverage.overwritten[0].earlier, 0U);
  EXPECT_EQ(coverage.overwritten[0].later, 1U);
}

TEST(Coverage, AWriteOfAllExpertsMeetsThoseOfSingleOnes) {
  const Coverage coverage = coverage_of(plan_of({3, 2, 2}, {{{1, 2}, {0, 2}, {0, 2}}, {{0, 3}, {0, 1}, {0, 2}}}), 0);
  EXPECT_EQ(coverage.written, 8U);
  EXPECT_THAT(coverage.missing, testing::ElementsAre(Box{{0, 1}, {1, 2}, {0, 2}}, Box{{2, 3}, {1, 2}, {0, 2}}));
  ASSERT_EQ(coverage.overwritten.size(), 1U);
  EXPECT_EQ(coverage.overwritten[0].box, (Box{{1, 2}, {0, 1}, {0, 2}}));
}

TEST(BytesRead, OfSomeColumnsReachFromTheFirstToTheLastRow) {
  const TensorView tensor{"o_proj.weight", Dtype::bf16, {3, 8}, {}, "m.safetensors", 100};
  Write write{.box = {{0, 1}, {0, 3}, {0, 4}}};
  write.base = 4;
  write.axes = {SourceAxis{}, SourceAxis{0, 8, 1}, SourceAxis{0, 1, 1}};
  const ByteRange range = bytes_read(write, tensor);
  EXPECT_EQ(range.offset, 108U);
  EXPECT_EQ(range.length, 40U);
  EXPECT_FALSE(range.contiguous);
}

TEST(BytesRead, OfWholeRowsAreContiguous) {
  const TensorView tensor{"q_b_proj.weight", Dtype::f8_e4m3, {4, 8}, {}, "m.safetensors", 0};
  Write write{.box = {{0, 1}, {0, 2}, {0, 8}}};
  write.axes = {SourceAxis{}, SourceAxis{2, 8, 1}, SourceAxis{0, 1, 1}};
  const ByteRange range = bytes_read(write, tensor);
  EXPECT_EQ(range.offset, 16U);
  EXPECT_EQ(range.length, 16U);
  EXPECT_TRUE(range.contiguous);
}

TEST(Outcome, EveryWordHasItsValueBack) {
  for (const Outcome outcome :
       {Outcome::loaded, Outcome::dropped_silently, Outcome::not_reached, Outcome::not_listed}) {
    EXPECT_EQ(outcome_from_string(to_string(outcome)), outcome);
  }
  EXPECT_FALSE(outcome_from_string("lost"));
}

}  // namespace
}  // namespace mtpcheck
