#include "cuda/simt/arithmetic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

TEST(Bits, CountsAndPositions) {
  EXPECT_EQ(__popc(0xF0F0u), 8);
  EXPECT_EQ(__popcll(0xF0F0F0F000000000ULL), 16);
  EXPECT_EQ(__clz(1), 31);
  EXPECT_EQ(__clz(0), 32);
  EXPECT_EQ(__clz(-1), 0);
  EXPECT_EQ(__clzll(1), 63);
  EXPECT_EQ(__ffs(0), 0);
  EXPECT_EQ(__ffs(8), 4);
  EXPECT_EQ(__ffsll(1LL << 40), 41);
  EXPECT_EQ(__brev(1u), 0x80000000u);
  EXPECT_EQ(__brev(0x12345678u), 0x1E6A2C48u);
  EXPECT_EQ(__brevll(1ULL), 1ULL << 63);
  EXPECT_EQ(__brevll(0x12345678ULL), 0x1E6A2C48ULL << 32);
}

TEST(Bits, PermutesBytes) {
  EXPECT_EQ(__byte_perm(0x33221100u, 0x77665544u, 0x3210u), 0x33221100u);
  EXPECT_EQ(__byte_perm(0x33221100u, 0x77665544u, 0x7531u), 0x77553311u);
  EXPECT_EQ(__byte_perm(0x00008000u, 0, 0x9991u), 0xFFFFFF80u);  // byte 1 and its sign
}

TEST(Bits, HighHalvesOfProducts) {
  EXPECT_EQ(__umulhi(0xFFFFFFFFu, 0xFFFFFFFFu), 0xFFFFFFFEu);
  EXPECT_EQ(__mulhi(-1, 1), -1);
}

TEST(Conversions, RoundAsTheirNamesSay) {
  EXPECT_EQ(__float2int_rn(2.5f), 2);
  EXPECT_EQ(__float2int_rn(3.5f), 4);
  EXPECT_EQ(__float2int_rz(-2.7f), -2);
  EXPECT_EQ(__float2int_rd(-2.1f), -3);
  EXPECT_EQ(__float2int_ru(-2.9f), -2);
  EXPECT_EQ(__float2uint_rn(2.5f), 2u);
}

TEST(Conversions, Saturate) {
  EXPECT_EQ(__float2int_rn(infinity), std::numeric_limits<int>::max());
  EXPECT_EQ(__float2int_rn(-1e20f), std::numeric_limits<int>::min());
  EXPECT_EQ(__float2int_rn(nan), 0);
  EXPECT_EQ(__float2uint_rn(-3.0f), 0u);
  EXPECT_EQ(__float2uint_rn(1e20f), std::numeric_limits<unsigned>::max());
}

TEST(Conversions, KeepBits) {
  EXPECT_EQ(__float_as_uint(-0.0f), 0x80000000u);
  EXPECT_EQ(__uint_as_float(0x3F800000u), 1.0f);
  EXPECT_EQ(__int_as_float(__float_as_int(-2.5f)), -2.5f);
  EXPECT_EQ(__longlong_as_double(__double_as_longlong(0.1)), 0.1);
}

TEST(Arithmetic, Approximations) {
  EXPECT_FLOAT_EQ(__expf(1.5f), std::exp(1.5f));
  EXPECT_FLOAT_EQ(__logf(1.5f), std::log(1.5f));
  EXPECT_FLOAT_EQ(__log2f(8.0f), 3.0f);
  EXPECT_FLOAT_EQ(__exp10f(2.0f), 100.0f);
  EXPECT_FLOAT_EQ(__powf(2.0f, 0.5f), std::sqrt(2.0f));
  EXPECT_FLOAT_EQ(__sinf(1.0f), std::sin(1.0f));
  EXPECT_FLOAT_EQ(__cosf(1.0f), std::cos(1.0f));
  EXPECT_FLOAT_EQ(__fdividef(1.0f, 3.0f), 1.0f / 3.0f);
  EXPECT_FLOAT_EQ(rsqrtf(16.0f), 0.25f);
  EXPECT_EQ(__saturatef(nan), 0.0f);
  EXPECT_EQ(__saturatef(7.0f), 1.0f);
  EXPECT_EQ(__fmaf_rn(1.0f + 0x1p-12f, 1.0f + 0x1p-12f, -1.0f), 0x1p-11f + 0x1p-24f);  // rounded once
}

TEST(Arithmetic, MinimumAndMaximumPassOverNan) {
  EXPECT_EQ(min(3, -2), -2);
  EXPECT_EQ(max(3u, 4u), 4u);
  EXPECT_EQ(min(nan, 1.0f), 1.0f);
  EXPECT_EQ(max(1.0f, nan), 1.0f);
}

}  // namespace
