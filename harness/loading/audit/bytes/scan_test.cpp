#include "harness/loading/audit/bytes/scan.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

namespace mtpcheck {
namespace {

Tensor weight(Shape shape, std::vector<float> values) {
  return tensor_of<float>(std::move(shape), std::span<const float>(values));
}

Tensor bytes(Dtype dtype, Shape shape, const std::vector<std::uint8_t>& codes) {
  Tensor tensor{dtype, std::move(shape), {}};
  for (const auto code : codes) tensor.bytes.push_back(static_cast<std::byte>(code));
  return tensor;
}

std::vector<Suspicion> scanned(const Tensor& tensor, Content content) { return scan(tensor.view(), content); }

TEST(Scan, TrainedNumbersAreNotSuspicious) {
  EXPECT_TRUE(scanned(weight({2, 2}, {1, -1, 0, 2}), Content::matrix).empty());
  EXPECT_TRUE(scanned(weight({2}, {0.5F, 0.5F}), Content::scale).empty());
  EXPECT_TRUE(scanned(weight({3}, {0, 0, 0}), Content::other).empty());
}

TEST(Scan, CountsEachKindAndGivesItsFirstPlace) {
  constexpr float kMin = std::numeric_limits<float>::lowest();
  const auto found =
      scanned(weight({2, 3}, {1, kMin, kMin, std::numeric_limits<float>::quiet_NaN(), 1, -1}), Content::scale);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].what, "finfo(float32).min");
  EXPECT_TRUE(found[0].sentinel);
  EXPECT_EQ(found[0].count, 2U);
  EXPECT_EQ(found[0].first, 1U);
  EXPECT_EQ(found[1].what, "NaN");
  EXPECT_FALSE(found[1].sentinel);
  EXPECT_EQ(found[2].what, "−1.0");
  EXPECT_EQ(found[2].first, 5U);
}

TEST(Scan, ANaNWithAnyPayloadIsOne) {
  for (const std::uint32_t bits : {0x7FC00000U, 0xFFC00001U, 0x7F800001U}) {
    EXPECT_EQ(scanned(weight({1}, {std::bit_cast<float>(bits)}), Content::matrix).size(), 1U);
  }
}

TEST(Scan, ZeroRowsOfAMatrixAndZeroNorms) {
  const auto rows = scanned(weight({3, 2}, {1, 0, 0, -0.0F, 0, 0}), Content::matrix);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].count, 2U);
  EXPECT_EQ(rows[0].first, 1U);
  EXPECT_EQ(scanned(weight({2}, {0, 0}), Content::norm).size(), 1U);
  EXPECT_TRUE(scanned(weight({2}, {0, 1}), Content::norm).empty());
}

TEST(Scan, ExponentsOfE8M0AndCodesOfFp8) {
  const auto exponents = scanned(bytes(Dtype::u8, {2, 2}, {120, 255, 0, 255}), Content::scale);
  ASSERT_EQ(exponents.size(), 1U);
  EXPECT_EQ(exponents[0].count, 2U);
  EXPECT_EQ(exponents[0].first, 1U);
  EXPECT_EQ(scanned(bytes(Dtype::f8_e8m0, {1}, {255}), Content::scale).size(), 1U);
  EXPECT_EQ(scanned(bytes(Dtype::f8_e4m3, {1, 2}, {0x7F, 1}), Content::matrix).size(), 1U);
  EXPECT_TRUE(scanned(bytes(Dtype::f8_e4m3, {1, 2}, {0x7E, 1}), Content::matrix).empty());
  EXPECT_EQ(scanned(bytes(Dtype::f8_e4m3, {2, 2}, {0, 0x80, 1, 1}), Content::matrix).size(), 1U);
}

TEST(Scan, ASinkMayBeMinusInfinity) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(scanned(weight({1}, {-kInfinity}), Content::sink).empty());
  EXPECT_EQ(scanned(weight({1}, {kInfinity}), Content::sink).size(), 1U);
  EXPECT_EQ(scanned(weight({1}, {-kInfinity}), Content::norm).size(), 1U);
}

TEST(Scan, CoordinatesAreRowMajor) { EXPECT_EQ(coordinates(weight({2, 3}, {0, 0, 0, 0, 0, 0}).view(), 4), "[1, 1]"); }

}  // namespace
}  // namespace mtpcheck
