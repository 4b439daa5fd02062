#include "harness/acceptance/statistics/engine_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace mtpcheck {
namespace {

using testing::DoubleNear;
using testing::Pointwise;

double value(const std::vector<EngineMetric>& metrics, const std::string& engine, const std::string& name) {
  for (const auto& metric : metrics) {
    if (metric.engine == engine && metric.name == name) return metric.value();
  }
  ADD_FAILURE() << "no " << engine << " " << name;
  return std::nan("");
}

// A curve published for an eight-deep drafter, with the mean acceptance length that was published beside it.
TEST(EngineMetrics, ReproducePublishedArithmetic) {
  const std::vector<double> curve{.7617, .6158, .5125, .4243, .3640, .3094, .2722, .2365};
  EXPECT_NEAR(mean_acceptance_length(curve), 4.50, 0.005);
}

TEST(EngineMetrics, StepsAddUp) {
  AcceptanceCounts counts;
  for (const std::size_t accepted : {3U, 0U, 1U, 3U}) add_step(counts, 3, accepted);
  const auto metrics = engine_metrics(counts);
  EXPECT_DOUBLE_EQ(value(metrics, "vllm", "draft acceptance rate"), 7.0 / 12);
  EXPECT_DOUBLE_EQ(value(metrics, "vllm", "mean acceptance length"), 1 + 7.0 / 4);
  EXPECT_DOUBLE_EQ(value(metrics, "vllm", "acceptance rate at position 1"), 3.0 / 4);
  EXPECT_DOUBLE_EQ(value(metrics, "vllm", "acceptance rate at position 3"), 2.0 / 4);
  EXPECT_DOUBLE_EQ(value(metrics, "mtpcheck", "conditional acceptance rate at position 2"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(value(metrics, "sglang", "accept length"), 11.0 / 4);
  EXPECT_DOUBLE_EQ(value(metrics, "llama.cpp", "accept"), 7.0 / 12);
  EXPECT_THAT(accepted_histogram(counts), Pointwise(DoubleNear(1e-12), {1.0, 1.0, 0.0, 2.0}));
}

// The conditional rates multiply to the unconditional ones, which sum to the length less one.
TEST(EngineMetrics, ConditionalRatesMultiplyToUnconditionalOnes) {
  AcceptanceCounts counts;
  for (const std::size_t accepted : {0U, 1U, 2U, 2U, 4U, 4U, 4U, 3U}) add_step(counts, 4, accepted);
  const auto metrics = engine_metrics(counts);
  double product = 1;
  double length = 1;
  for (int k = 1; k <= 4; ++k) {
    product *= value(metrics, "mtpcheck", "conditional acceptance rate at position " + std::to_string(k));
    EXPECT_NEAR(product, value(metrics, "vllm", "acceptance rate at position " + std::to_string(k)), 1e-12);
    length += product;
  }
  EXPECT_NEAR(length, mean_acceptance_length(counts), 1e-12);
}

TEST(EngineMetrics, AStepCutShortByTheEndDraftsLess) {
  AcceptanceCounts counts;
  add_step(counts, 3, 3);
  add_step(counts, 1, 1);  // the first draft was the end of the sequence
  EXPECT_DOUBLE_EQ(counts.drafted, 4);
  EXPECT_DOUBLE_EQ(counts.accepted(), 4);
  EXPECT_DOUBLE_EQ(counts.drafted_at[1], 1);
}

TEST(EngineMetrics, SpeedupBreaksEvenWhereDraftsCostWhatTheyBring) {
  EXPECT_DOUBLE_EQ(expected_speedup(1.0, 3, 0.0), 1.0);
  EXPECT_DOUBLE_EQ(expected_speedup(2.5, 3, 0.5), 1.0);
}

}  // namespace
}  // namespace mtpcheck
