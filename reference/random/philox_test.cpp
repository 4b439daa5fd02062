#include "reference/random/philox.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mtpcheck {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The known answers of Random123's own test file (kat_vectors, philox4x32 10).
TEST(Philox, ReproducesRandom123KnownAnswers) {
  EXPECT_EQ(philox({0, 0}, {0, 0, 0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0xa4093822, 0x299f31d0}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, UniformAndNormalHaveTheirMoments) {
  constexpr int kDraws = 100000;
  const RandomStream stream(42, 7);
  double sum = 0;
  double normal = 0;
  double square = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double u = stream.uniform(i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    const double z = stream.normal(i);
    normal += z;
    square += z * z;
  }
  // Five standard errors.
  EXPECT_NEAR(sum / kDraws, 0.5, 5 * std::sqrt(1.0 / 12 / kDraws));
  EXPECT_NEAR(normal / kDraws, 0.0, 5 / std::sqrt(kDraws));
  EXPECT_NEAR(square / kDraws, 1.0, 5 * std::sqrt(2.0 / kDraws));
}

TEST(RandomStream, StreamsAndSeedsDiffer) {
  EXPECT_NE(RandomStream(1, 0).bits(0), RandomStream(2, 0).bits(0));
  EXPECT_NE(RandomStream(1, 0).bits(0), RandomStream(1, 1).bits(0));
  EXPECT_EQ(RandomStream(1, 3).bits(9), RandomStream(1, 3).bits(9));
}

}  // namespace
}  // namespace mtpcheck
