#include "reference/tensor/float_formats.h"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <cmath>

namespace mtpcheck {
namespace {

// Eigen's own bfloat16 and half are the oracle where it has them.
TEST(FloatFormats, BFloat16DecodesAsEigenForAllBits) {
  for (unsigned bits = 0; bits < 0x10000u; ++bits) {
    const auto eigen = static_cast<float>(Eigen::numext::bit_cast<Eigen::bfloat16>(static_cast<std::uint16_t>(bits)));
    const float ours = bf16_to_f32(static_cast<std::uint16_t>(bits));
    ASSERT_TRUE((std::isnan(eigen) && std::isnan(ours)) ||
                std::bit_cast<std::uint32_t>(eigen) == std::bit_cast<std::uint32_t>(ours));
  }
}

TEST(FloatFormats, HalfDecodesAsEigenForAllBits) {
  for (unsigned bits = 0; bits < 0x10000u; ++bits) {
    const auto eigen = static_cast<float>(Eigen::numext::bit_cast<Eigen::half>(static_cast<std::uint16_t>(bits)));
    const float ours = f16_to_f32(static_cast<std::uint16_t>(bits));
    ASSERT_TRUE((std::isnan(eigen) && std::isnan(ours)) ||
                std::bit_cast<std::uint32_t>(eigen) == std::bit_cast<std::uint32_t>(ours))
        << bits;
  }
}

// Midpoints, their neighbours and a sweep of exponents, where rounding goes wrong first.
TEST(FloatFormats, RoundingAgreesWithEigenAtMidpoints) {
  for (unsigned bits = 0; bits < 0xFF000000u; bits += 0x00000FFFu) {
    for (const std::uint32_t near : {bits, bits | 0x8000u, bits | 0x1000u, (bits | 0x1000u) + 1u}) {
      const auto value = std::bit_cast<float>(near);
      if (std::isnan(value)) continue;
      ASSERT_EQ(f32_to_bf16(value), Eigen::numext::bit_cast<std::uint16_t>(Eigen::bfloat16(value))) << near;
      ASSERT_EQ(f32_to_f16(value), Eigen::numext::bit_cast<std::uint16_t>(Eigen::half(value))) << near;
    }
  }
}

TEST(FloatFormats, RoundingInPlaceIsEncodingAndDecoding) {
  for (unsigned bits = 0; bits < 0xFF000000u; bits += 0x00000FFFu) {
    for (const std::uint32_t near : {bits, bits | 0x8000u, bits | 0x1000u, (bits | 0x1000u) + 1u}) {
      const auto value = std::bit_cast<float>(near);
      if (std::isnan(value)) continue;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(round_to_f16(value)),
                std::bit_cast<std::uint32_t>(f16_to_f32(f32_to_f16(value))))
          << near;
    }
  }
  EXPECT_TRUE(std::isnan(round_to_f16(std::numeric_limits<float>::quiet_NaN())));
}

TEST(FloatFormats, E4m3RoundTripsEveryFiniteCode) {
  for (unsigned bits = 0; bits < 256; ++bits) {
    const float value = e4m3_to_f32(static_cast<std::uint8_t>(bits));
    if ((bits & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(value));
      continue;
    }
    EXPECT_EQ(f32_to_e4m3(value), bits);
  }
}

TEST(FloatFormats, E4m3RoundsToTheNearestCodeAndTiesToEven) {
  for (unsigned bits = 0; bits < 0x7E; ++bits) {
    const float low = e4m3_to_f32(static_cast<std::uint8_t>(bits));
    const float high = e4m3_to_f32(static_cast<std::uint8_t>(bits + 1));
    const float middle = low + (high - low) / 2;  // exact in float32
    EXPECT_EQ(f32_to_e4m3(middle), bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(f32_to_e4m3(std::nextafter(middle, 0.0F)), bits);
    EXPECT_EQ(f32_to_e4m3(std::nextafter(middle, 1e9F)), bits + 1);
  }
}

TEST(FloatFormats, E4m3Saturates) {
  EXPECT_EQ(f32_to_e4m3(1e9F), 0x7E);
  EXPECT_EQ(f32_to_e4m3(-std::numeric_limits<float>::infinity()), 0xFE);
}

TEST(FloatFormats, E8m0IsAPowerOfTwoOfItsByte) {
  for (unsigned bits = 0; bits < 255; ++bits) {
    EXPECT_EQ(e8m0_to_f32(static_cast<std::uint8_t>(bits)), std::ldexp(1.0F, static_cast<int>(bits) - 127));
  }
  EXPECT_TRUE(std::isnan(e8m0_to_f32(255)));
}

TEST(FloatFormats, E5m2IsTheUpperByteOfHalf) {
  for (unsigned bits = 0; bits < 256; ++bits) {
    const float ours = e5m2_to_f32(static_cast<std::uint8_t>(bits));
    const float half = f16_to_f32(static_cast<std::uint16_t>(bits << 8));
    EXPECT_TRUE((std::isnan(ours) && std::isnan(half)) || ours == half);
  }
}

}  // namespace
}  // namespace mtpcheck
