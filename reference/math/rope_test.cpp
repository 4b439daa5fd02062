#include "reference/math/rope.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

void expect_frequencies(const RopeParameters& parameters, std::span<const double> expected) {
  const auto exact = rope_frequencies<double>(parameters, 2 * expected.size(), 4096, 1);
  const auto narrow = rope_frequencies<float>(parameters, 2 * expected.size(), 4096, 1);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(exact.inverse[i], expected[i], 1e-15 * expected[i]) << i;
    EXPECT_NEAR(static_cast<double>(narrow.inverse[i]), expected[i], 4e-7 * expected[i]) << i;
  }
}

TEST(Rope, PlainFrequencies) {
  expect_frequencies({}, std::array{1.0, 0.1, 0.01, 0.001});
  RopeParameters linear;
  linear.type = std::string("linear");
  linear.factor = 4;
  expect_frequencies(linear, std::array{0.25, 0.025, 0.0025, 0.00025});
}

// Computed in Python from Peng et al. 2023 (YaRN) and from Llama 3.1's published scaling.
TEST(Rope, YarnAndLlama3Frequencies) {
  RopeParameters yarn;
  yarn.type = std::string("yarn");
  yarn.factor = 8;
  yarn.original_max_position_embeddings = 4096;
  expect_frequencies(yarn, std::array{1.0, 0.31622776601683794, 0.1, 0.02470529422006546, 0.005625,
                                      0.0010870329456828802, 0.000125, 3.952847075210474e-05});
  yarn.truncate = false;
  expect_frequencies(yarn, std::array{1.0, 0.31622776601683794, 0.1, 0.02811208084703974, 0.005983133441317673,
                                      0.0009728577591530727, 0.000125, 3.952847075210474e-05});
  RopeParameters llama;
  llama.type = std::string("llama3");
  llama.theta = 500000;
  llama.factor = 8;
  llama.original_max_position_embeddings = 8192;
  expect_frequencies(
      llama, std::array{1.0, 0.19392274474868576, 0.03760603093086393, 0.007292664737217109, 0.0005248461609929547,
                        3.428102195952591e-05, 6.647869871181235e-06, 1.2891731721515574e-06});
}

TEST(Rope, YarnsMagnitude) {
  RopeParameters yarn;
  yarn.type = std::string("yarn");
  yarn.factor = 40;
  const double paper = 0.1 * std::log(40.0) + 1;
  const auto factor = [&] { return rope_frequencies<double>(yarn, 8, 4096, 1).attention_factor; };
  EXPECT_DOUBLE_EQ(factor(), paper);
  EXPECT_EQ(yarn_softmax_factor(yarn), 1);
  yarn.mscale = 0.7;
  yarn.mscale_all_dim = 0.7;
  EXPECT_DOUBLE_EQ(factor(), 1);
  EXPECT_DOUBLE_EQ(yarn_softmax_factor(yarn), std::pow(0.07 * std::log(40.0) + 1, 2));
  yarn.mscale_all_dim = 1;
  EXPECT_DOUBLE_EQ(factor(), (0.07 * std::log(40.0) + 1) / paper);
  yarn.attention_factor = 1.25;
  EXPECT_EQ(factor(), 1.25);
}

TEST(Rope, DynamicScalesOnlyBeyondTheTrainedLength) {
  RopeParameters dynamic;
  dynamic.type = std::string("dynamic");
  dynamic.factor = 2;
  const auto within = rope_frequencies<double>(dynamic, 8, 4096, 4096);
  EXPECT_DOUBLE_EQ(within.inverse[1], 0.1);
  const auto beyond = rope_frequencies<double>(dynamic, 8, 4096, 8192);
  const double theta = 10000 * std::pow(2.0 * 2 - 1, 8.0 / 6);
  EXPECT_DOUBLE_EQ(beyond.inverse[1], std::pow(theta, -0.25));
}

TEST(Rope, AnUnknownTypeIsRefused) {
  RopeParameters parameters;
  parameters.type = std::string("longrope");
  EXPECT_THROW(rope_frequencies<double>(parameters, 8, 4096, 1), Error);
  parameters.type = std::string("yarn");
  EXPECT_THROW(rope_frequencies<double>(parameters, 8, 0, 1), Error);
}

TEST(Rope, PairsTurnByTheirAngle) {
  const std::vector<std::int64_t> positions{0, 7};
  const auto by = rotation<double>(positions, rope_frequencies<double>({}, 4, 4096, 8));
  Rows<double> x(2, 4);
  x << 1, 2, 3, 4, 1, 2, 3, 4;
  const auto interleaved = rotate(x, 1, by, RopePairing::interleaved);
  EXPECT_TRUE(interleaved.row(0) == x.row(0));
  EXPECT_DOUBLE_EQ(interleaved(1, 0), std::cos(7.0) - 2 * std::sin(7.0));
  EXPECT_DOUBLE_EQ(interleaved(1, 1), 2 * std::cos(7.0) + std::sin(7.0));
  EXPECT_DOUBLE_EQ(interleaved(1, 2), 3 * std::cos(0.07) - 4 * std::sin(0.07));
  const auto half = rotate(x, 1, by, RopePairing::half_split);
  EXPECT_DOUBLE_EQ(half(1, 0), std::cos(7.0) - 3 * std::sin(7.0));
  EXPECT_DOUBLE_EQ(half(1, 2), 3 * std::cos(7.0) + std::sin(7.0));
  EXPECT_DOUBLE_EQ(half(1, 3), 4 * std::cos(0.07) + 2 * std::sin(0.07));
}

}  // namespace
}  // namespace mtpcheck
