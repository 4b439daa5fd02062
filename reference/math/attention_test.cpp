#include "reference/math/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "reference/math/indexer.h"
#include "reference/math/rows.h"

namespace mtpcheck {
namespace {

Rows<double> random_rows(Eigen::Index rows, Eigen::Index cols, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  return Rows<double>::NullaryExpr(rows, cols, [&] { return normal(random); });
}

struct World {
  World(Eigen::Index heads, Eigen::Index keys, Eigen::Index width, Eigen::Index value_width)
      : q(random_rows(heads, width, 1)),
        k(random_rows(keys, width, 2)),
        v(random_rows(keys, value_width, 3)),
        out(heads, value_width) {
    selected.resize(static_cast<std::size_t>(keys));
    std::iota(selected.begin(), selected.end(), 0);
  }
  void attend_to(std::span<const double> sinks, double* probabilities = nullptr) {
    Attention<double> a;
    a.queries = q.data();
    a.query_stride = a.width = a.key_stride = static_cast<std::size_t>(q.cols());
    a.heads = static_cast<std::size_t>(q.rows());
    a.keys = k.data();
    a.values = v.data();
    a.value_stride = a.value_width = static_cast<std::size_t>(v.cols());
    a.selected = selected;
    a.scale = 0.3;
    a.sinks = sinks;
    attend(a, out.data(), a.value_width, probabilities);
  }
  /// The definition, key by key.
  double expected(Eigen::Index head, Eigen::Index channel, double sink) const {
    double sum = std::exp(sink);
    double weighted = 0;
    for (const auto j : selected) {
      const double e = std::exp(0.3 * q.row(head).dot(k.row(j)));
      sum += e;
      weighted += e * v(j, channel);
    }
    return weighted / sum;
  }
  Rows<double> q, k, v, out;
  std::vector<std::int32_t> selected;
};

TEST(Attention, AgreesWithTheDefinitionAcrossKeyBlocks) {
  for (const Eigen::Index keys : {1, 3, 511, 512, 513, 1300}) {
    World world(3, keys, 7, 5);
    const std::vector<double> sinks{0.0, 2.5, -30.0};
    world.attend_to(sinks);
    for (Eigen::Index h = 0; h < 3; ++h) {
      for (Eigen::Index c = 0; c < 5; ++c) {
        EXPECT_NEAR(world.out(h, c), world.expected(h, c, sinks[static_cast<std::size_t>(h)]), 1e-13) << keys;
      }
    }
  }
}

TEST(Attention, OnlySelectedKeysCount) {
  World world(2, 20, 4, 3);
  world.selected = {1, 5, 19};
  world.k.row(7).setConstant(std::numeric_limits<double>::quiet_NaN());
  world.attend_to({});
  EXPECT_NEAR(world.out(1, 2), world.expected(1, 2, -std::numeric_limits<double>::infinity()), 1e-14);
}

TEST(Attention, ALargeSinkTakesEverythingAndLargeLogitsDoNotOverflow) {
  World world(1, 4, 2, 1);
  world.q *= 1e4;
  world.attend_to(std::vector<double>{1e9});
  EXPECT_EQ(world.out(0, 0), 0);
  world.attend_to({});
  EXPECT_TRUE(std::isfinite(world.out(0, 0)));
}

TEST(Attention, NothingToAttendToGivesZeros) {
  World world(2, 4, 2, 3);
  world.selected.clear();
  world.out.setConstant(7);
  world.attend_to({});
  EXPECT_TRUE((world.out.array() == 0).all());
}

TEST(Attention, ProbabilitiesAndTheSinkSumToOne) {
  World world(1, 6, 3, 2);
  std::vector<double> probabilities(6);
  world.attend_to(std::vector<double>{0.7}, probabilities.data());
  double others = 0;
  for (Eigen::Index j = 0; j < 6; ++j) others += std::exp(0.3 * world.q.row(0).dot(world.k.row(j)));
  const double kept = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  EXPECT_NEAR(kept, others / (others + std::exp(0.7)), 1e-15);
}

TEST(Indexer, ScoresAreWeightedRectifiedProducts) {
  const auto q = random_rows(3, 8, 4);
  const auto k = random_rows(1100, 8, 5);
  const std::vector<double> weights{0.5, -1.0, 2.0};
  std::vector<double> key_scales(1100, 0.25);
  std::vector<double> scores(1100);
  index_scores<double>(q.data(), weights, 8, k.data(), 8, key_scales, 1100, scores.data());
  for (Eigen::Index j = 0; j < 1100; ++j) {
    double expected = 0;
    for (Eigen::Index h = 0; h < 3; ++h) {
      expected += weights[static_cast<std::size_t>(h)] * std::max(0.0, q.row(h).dot(k.row(j)));
    }
    ASSERT_NEAR(scores[static_cast<std::size_t>(j)], 0.25 * expected, 1e-14) << j;
  }
}

}  // namespace
}  // namespace mtpcheck
