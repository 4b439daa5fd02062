#include "reference/math/norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reference/math/quantise.h"

namespace mtpcheck {
namespace {

TEST(Norm, RootMeanSquare) {
  Rows<double> x(2, 3);
  x << 1, 2, 2, 0, 0, 0;
  const auto y = rms_norm(x, {1, 0.5, 2}, 1e-5);
  const double rms = std::sqrt(3 + 1e-5);
  EXPECT_DOUBLE_EQ(y(0, 0), 1 / rms);
  EXPECT_DOUBLE_EQ(y(0, 1), 1 / rms);
  EXPECT_DOUBLE_EQ(y(0, 2), 4 / rms);
  EXPECT_EQ(y(1, 0), 0);
}

TEST(Norm, LayerNormUsesTheBiasedVariance) {
  Rows<double> x(1, 4);
  x << 1, 2, 3, 6;
  const auto y = layer_norm(x, {1, 1, 1, 2}, {0, 0, 10, 0}, 0.5);
  const double deviation = std::sqrt(3.5 + 0.5);
  EXPECT_DOUBLE_EQ(y(0, 0), -2 / deviation);
  EXPECT_DOUBLE_EQ(y(0, 2), 10);
  EXPECT_DOUBLE_EQ(y(0, 3), 6 / deviation);
}

TEST(Norm, ARowDoesNotDependOnWhereItLies) {
  Rows<float> x(5, 13);
  for (Eigen::Index i = 0; i < x.size(); ++i) x.data()[i] = std::sin(static_cast<float>(i));
  const Vector ones(13, 1.0);
  const auto all = rms_norm(x, ones, 1e-6);
  for (Eigen::Index t = 0; t < 5; ++t) {
    const Rows<float> alone = x.row(t);
    EXPECT_TRUE(rms_norm(alone, ones, 1e-6) == all.row(t));
  }
}

TEST(Norm, BothOrdersOfRounding) {
  Rows<float> x(1, 6);
  x << 1, 2, 3, 4, 5, 6;
  const Vector weight(6, 1.3);
  const auto w = static_cast<float>(weight[0]);
  const auto normalised = rms_norm(x, Vector(6, 1.0), 0);
  const auto exact = rms_norm(x, weight, 0);
  const auto first = rms_norm(x, weight, 0, {Format::bf16, NormOrder::cast_then_weight});
  const auto last = rms_norm(x, weight, 0, {Format::bf16, NormOrder::weight_then_cast});
  for (Eigen::Index i = 0; i < 6; ++i) {
    EXPECT_EQ(first(0, i), round_to_bf16(round_to_bf16(normalised(0, i)) * w));
    EXPECT_EQ(last(0, i), round_to_bf16(exact(0, i)));
  }
  EXPECT_FALSE(first == last);
}

TEST(Quantise, PowerOfTwoScalesRoundUpAndNothingSaturates) {
  Rows<float> x(1, 4);
  x << 448.0F, -3.0F, 449.0F, 0.0F;
  const auto pairs = quantise(x, 2, ScaleFormat::power_of_two);
  EXPECT_EQ(pairs.scales(0, 0), 1.0F);
  EXPECT_EQ(pairs.scales(0, 1), 2.0F);
  EXPECT_EQ(pairs.codes(0, 0), 448.0F);
  EXPECT_EQ(pairs.codes(0, 2), 224.0F);
  EXPECT_EQ(dequantised(pairs, 2)(0, 1), -3.0F);
}

TEST(Quantise, FloatScalesMapTheLargestToTheLargest) {
  Rows<double> x(1, 3);
  x << 0.1, -7.0, 3.0;
  const auto whole = quantise(x, 128, ScaleFormat::float32);
  EXPECT_EQ(whole.codes(0, 1), -448.0);
  EXPECT_NEAR(dequantised(whole, 128)(0, 1), -7.0, 1e-6);
  EXPECT_NEAR(dequantised(whole, 128)(0, 2), 3.0, 3.0 / 16);
  x.setZero();
  EXPECT_EQ(dequantised(quantise(x, 128, ScaleFormat::float32), 128)(0, 0), 0.0);
}

TEST(Quantise, NotANumberSpoilsItsGroupOnly) {
  Rows<float> x(1, 4);
  x << 1.0F, std::nanf(""), 1.0F, 2.0F;
  const auto y = dequantised(quantise(x, 2, ScaleFormat::power_of_two), 2);
  EXPECT_TRUE(std::isnan(y(0, 1)));
  EXPECT_EQ(y(0, 3), 2.0F);
}

}  // namespace
}  // namespace mtpcheck
