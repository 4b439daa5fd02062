#include "harness/loading/carry_out/carry_out.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

std::uint16_t bf16_at(const Tensor& tensor, std::size_t element) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, tensor.bytes.data() + 2 * element, sizeof bits);
  return bits;
}

// E4M3 and E8M0 by their definitions, in float64.
double e4m3(unsigned code) {
  const double sign = (code & 0x80U) != 0 ? -1.0 : 1.0;
  const unsigned exponent = code >> 3 & 0xFU;
  const double mantissa = code & 0x7U;
  if ((code & 0x7FU) == 0x7FU) return std::numeric_limits<double>::quiet_NaN();
  return sign * (exponent == 0 ? mantissa * 0x1p-9 : std::ldexp(8.0 + mantissa, static_cast<int>(exponent) - 10));
}

// The nearest BF16, ties to even: eight bits of significand, spaced 2^-133 at the least.
double nearest_bf16(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int unit = std::max(exponent - 8, -133);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  return std::fabs(rounded) >= 0x1p128 ? std::copysign(std::numeric_limits<double>::infinity(), value) : rounded;
}

// One row of every FP8 code for each E8M0 exponent, dequantised as the indexer's wk is.
TEST(CarryOut, DequantisesEveryCodeByEveryExponentAsDefined) {
  Tensor weight = make_tensor(Dtype::f8_e4m3, {256, 256});
  Tensor scale = make_tensor(Dtype::u8, {256, 1});
  for (std::size_t i = 0; i < weight.bytes.size(); ++i) weight.bytes[i] = static_cast<std::byte>(i % 256);
  for (std::size_t i = 0; i < 256; ++i) scale.bytes[i] = static_cast<std::byte>(i);
  const std::vector<TensorView> tensors{weight.view("wk.weight"), scale.view("wk.weight_scale")};

  LoadPlan plan;
  plan.parameters.push_back(
      {.name = "wk_weights_proj", .dtype = Dtype::bf16, .shape = {256, 256}, .extents = {1, 256, 256}});
  Write write{.box = {{0, 1}, {0, 256}, {0, 256}}};
  write.axes = {SourceAxis{}, SourceAxis{0, 256, 1}, SourceAxis{0, 1, 1}};
  write.conversion = {.kind = Conversion::Kind::dequantise,
                      .read_as = Dtype::f8_e4m3,
                      .scale_tensor = 1,
                      .scale_read_as = Dtype::f8_e8m0,
                      .group_rows = 1,
                      .group_cols = 256,
                      .grid_cols = 1};
  plan.writes.push_back(write);

  const Tensor result = carry_out(plan, 0, tensors).tensor;
  for (unsigned exponent = 0; exponent < 256; ++exponent) {
    for (unsigned code = 0; code < 256; ++code) {
      const auto bits = std::uint32_t{bf16_at(result, exponent * 256 + code)} << 16;
      const double got = static_cast<double>(std::bit_cast<float>(bits));
      const double factor = exponent == 255 ? std::numeric_limits<double>::quiet_NaN()
                                            : std::ldexp(1.0, static_cast<int>(exponent) - 127);
      const double expected = nearest_bf16(e4m3(code) * factor);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(got)) << exponent << " " << code;
      } else {
        ASSERT_EQ(got, expected) << exponent << " " << code;
      }
    }
  }
}

TEST(CarryOut, ALaterWriteReplacesAnEarlierAndTheRestKeepsItsFill) {
  const std::vector<float> ones(4, 1.0F);
  const std::vector<float> twos(2, 2.0F);
  const Tensor first = tensor_of<float>({4}, ones);
  const Tensor second = tensor_of<float>({2}, twos);
  LoadPlan plan;
  plan.parameters.push_back({.name = "bias", .dtype = Dtype::f32, .shape = {6}, .extents = {1, 6, 1}});
  for (std::uint32_t i = 0; i < 2; ++i) {
    Write write{.tensor = i, .box = {{0, 1}, {i, i == 0 ? 4U : 3U}, {0, 1}}};
    write.axes[1] = {0, 1, 1};
    write.conversion.read_as = Dtype::f32;
    plan.writes.push_back(write);
  }
  const CarriedOut carried = carry_out(plan, 0, std::vector{first.view("a"), second.view("b")}, Fill::zero);
  EXPECT_EQ(carried.unwritten, 2U);
  EXPECT_EQ(to_f32(carried.tensor.view()), (std::vector<float>{1, 2, 2, 1, 0, 0}));
}

TEST(CarryOut, NeedsTheData) {
  LoadPlan plan;
  plan.parameters.push_back({.name = "bias", .dtype = Dtype::f32, .shape = {1}, .extents = {1, 1, 1}});
  Write write{.box = {{0, 1}, {0, 1}, {0, 1}}};
  write.conversion.read_as = Dtype::f32;
  plan.writes.push_back(write);
  const TensorView header{"bias", Dtype::f32, {1}, {}, "model.safetensors", 0};
  EXPECT_THROW(carry_out(plan, 0, std::vector{header}), Error);
}

}  // namespace
}  // namespace mtpcheck
