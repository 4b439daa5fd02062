#include "cuda/device/floor.h"

#include <gtest/gtest.h>

namespace mtpcheck::cuda {
namespace {

TEST(Floor, Hy4PreviewsLayerHasTenBillionParameters) {
  // All experts' bytes in bf16: HY V4's 9.7 billion expert parameters.
  const HeadShape shape = hy4_preview();
  const double experts = 3.0 * shape.inner * shape.hidden * shape.experts;
  EXPECT_NEAR(experts, 9.66e9, 0.01e9);
}

TEST(Floor, ExpertsInUseGrowFromKTowardsAll) {
  const HeadShape shape = hy4_preview();
  EXPECT_DOUBLE_EQ(expected_experts(shape, 1), 8.0);
  EXPECT_NEAR(expected_experts(shape, 16), 102.0, 0.1);
  EXPECT_NEAR(expected_experts(shape, 100000), 256.0, 1e-9);
}

TEST(Floor, AStepIsAtLeastItsWeights) {
  const DeviceRates rates;
  const auto costs = decode_costs(hy4_preview(), WeightStorage::bf16, 1, 8192);
  double bytes = 0;
  for (const auto& cost : costs) bytes += cost.bytes;
  // 0.7 billion parameters of the layer and 0.74 billion of lm_head, two bytes each.
  EXPECT_NEAR(bytes, 2 * (0.7e9 + 0.742e9), 0.05e9);
  EXPECT_GE(total_seconds(costs, rates), bytes / rates.bytes_per_second);
  const auto narrow = decode_costs(hy4_preview(), WeightStorage::fp8_block, 1, 8192);
  EXPECT_LT(total_seconds(narrow, rates), total_seconds(costs, rates));
}

}  // namespace
}  // namespace mtpcheck::cuda
