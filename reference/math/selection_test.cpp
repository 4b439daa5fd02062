#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "reference/math/activation.h"
#include "reference/math/router.h"
#include "reference/math/topk.h"

namespace mtpcheck {
namespace {

using Ids = std::vector<std::int32_t>;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Ids chosen(const std::vector<double>& scores, std::size_t count) {
  return largest(std::span<const double>(scores), count);
}

TEST(Topk, TiesGoToTheLowestIndex) {
  EXPECT_EQ(chosen({1, 3, 2, 3, 3}, 2), (Ids{1, 3}));
  EXPECT_EQ(chosen({0.0, -0.0, 0.0, -1}, 2), (Ids{0, 1}));
  EXPECT_EQ(chosen({-0.0, 0.0, 0.0}, 2), (Ids{0, 1}));
}

TEST(Topk, EdgesOfTheCount) {
  EXPECT_EQ(chosen({5, 4}, 3), (Ids{0, 1}));
  EXPECT_EQ(chosen({5, 4}, 0), Ids{});
  EXPECT_EQ(chosen({}, 4), Ids{});
  EXPECT_EQ(chosen({-kInfinity, 1, -kInfinity}, 2), (Ids{0, 1}));
}

TEST(Topk, NotANumberComesFirst) { EXPECT_EQ(chosen({1, kInfinity, kNaN, 2}, 2), (Ids{1, 2})); }

TEST(Topk, TheBoundaryAndItsTies) {
  const std::vector<double> scores{5, 1, 3, 3, 3, 0};
  const auto b = boundary(std::span<const double>(scores), 3);
  EXPECT_EQ(b.last_chosen, 3);
  EXPECT_EQ(b.first_left_out, 3);
  EXPECT_EQ(b.margin(), 0);
  EXPECT_EQ(b.tied_in, 2U);
  EXPECT_EQ(b.tied_out, 1U);
  EXPECT_DOUBLE_EQ(boundary(std::span<const double>(scores), 4).margin(), 2);
  EXPECT_TRUE(boundary(std::span<const double>(scores), 6).everything);
}

TEST(Router, TheBiasOnlySelects) {
  Rows<double> logits(1, 4);
  logits << 0, 1, 2, 3;
  const auto experts = choose_experts(selection_scores(logits, {1, 0, 0, 0.5}, {}), 2);
  EXPECT_EQ(experts, (ExpertChoice{{0, 3}}));
  const auto weights = expert_weights(logits, experts, true, 2.5);
  const double a = sigmoid(0.0);
  const double b = sigmoid(3.0);
  EXPECT_DOUBLE_EQ(weights(0, 0), 2.5 * a / (a + b));
  EXPECT_DOUBLE_EQ(weights(0, 1), 2.5 * b / (a + b));
  EXPECT_DOUBLE_EQ(expert_weights(logits, experts, false, 1)(0, 1), b);
}

TEST(Router, GroupsAreRankedByTheirTwoBest) {
  Rows<double> logits(1, 6);
  logits << 9, -9, 3, 3, 2, 2;  // group 0 has the best expert, group 1 the best two
  EXPECT_EQ(choose_experts(selection_scores(logits, {}, {3, 1}), 2), (ExpertChoice{{2, 3}}));
  EXPECT_EQ(choose_experts(selection_scores(logits, {}, {3, 2}), 2), (ExpertChoice{{2, 3}}));
  EXPECT_EQ(choose_experts(selection_scores(logits, {}, {}), 2), (ExpertChoice{{0, 2}}));
}

TEST(SwiGlu, TheClampIsOneSidedOnTheGate) {
  Rows<double> gate(1, 4);
  Rows<double> up(1, 4);
  gate << 12, -12, 1, kNaN;
  up << 1, 1, -20, 1;
  const auto y = swiglu(gate, up, 10);
  EXPECT_DOUBLE_EQ(y(0, 0), silu(10.0));
  EXPECT_DOUBLE_EQ(y(0, 1), silu(-12.0));
  EXPECT_DOUBLE_EQ(y(0, 2), -10 * silu(1.0));
  EXPECT_TRUE(std::isnan(y(0, 3)));
  EXPECT_DOUBLE_EQ(swiglu(gate, up, 0)(0, 0), silu(12.0));
}

}  // namespace
}  // namespace mtpcheck
