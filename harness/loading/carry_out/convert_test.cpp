// Expected codes are torch 2.15's, of `copy_` on a CPU.
#include "harness/loading/carry_out/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "harness/loading/carry_out/carry_out.h"
#include "harness/loading/carry_out/fill.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

template <class Result, class Value>
Result converted(Dtype from, Value value, Dtype to) {
  Result result{};
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  convert_elements(from, bytes.data(), 1, to, reinterpret_cast<std::byte*>(&result), 1);
  return result;
}

TEST(Convert, ToE4m3Saturates) {
  const auto to_e4m3 = [](float value) { return converted<std::uint8_t>(Dtype::f32, value, Dtype::f8_e4m3); };
  EXPECT_EQ(to_e4m3(1e6F), 0x7E);
  EXPECT_EQ(to_e4m3(-std::numeric_limits<float>::infinity()), 0xFE);
  EXPECT_EQ(to_e4m3(464.0F), 0x7E);
  EXPECT_EQ(to_e4m3(std::ldexp(1.0F, -10)), 0x00);
  EXPECT_EQ(to_e4m3(std::ldexp(1.5F, -9)), 0x02);
  EXPECT_EQ(to_e4m3(std::nanf("")), 0x7F);
}

TEST(Convert, ToE8m0TakesTheExponentRounded) {
  const auto to_e8m0 = [](float value) { return converted<std::uint8_t>(Dtype::f32, value, Dtype::f8_e8m0); };
  EXPECT_EQ(to_e8m0(116.0F), 134);
  EXPECT_EQ(to_e8m0(1.5F), 128);
  EXPECT_EQ(to_e8m0(1.4999F), 127);
  EXPECT_EQ(to_e8m0(-1.0F), 127);
  EXPECT_EQ(to_e8m0(0.0F), 0);
  EXPECT_EQ(to_e8m0(6e-39F), 1);
  EXPECT_EQ(to_e8m0(3e38F), 255);
  EXPECT_EQ(to_e8m0(std::numeric_limits<float>::infinity()), 255);
}

TEST(Convert, ToBytesCutsAndWraps) {
  const auto to_u8 = [](float value) { return converted<std::uint8_t>(Dtype::f32, value, Dtype::u8); };
  EXPECT_EQ(to_u8(300.5F), 44);
  EXPECT_EQ(to_u8(-3.2F), 253);
  EXPECT_EQ(to_u8(255.9F), 255);
  EXPECT_EQ(to_u8(1e30F), 0);
  EXPECT_EQ(to_u8(std::nanf("")), 0);
  // An exponent read as a number: 2^-11 is none, and the byte 116 becomes 116.
  EXPECT_EQ(converted<std::uint8_t>(Dtype::f8_e8m0, std::uint8_t{116}, Dtype::u8), 0);
  EXPECT_EQ(converted<float>(Dtype::u8, std::uint8_t{116}, Dtype::f32), 116.0F);
}

TEST(Convert, KeepsNumbersBetweenFloats) {
  EXPECT_EQ(converted<std::uint16_t>(Dtype::f8_e4m3, std::uint8_t{0x7E}, Dtype::bf16), 0x43E0);  // 448
  EXPECT_EQ(converted<std::uint8_t>(Dtype::f8_e5m2, std::uint8_t{0x7B}, Dtype::f8_e4m3), 0x7E);  // 57344 → 448
  EXPECT_EQ(converted<std::uint16_t>(Dtype::f64, 1.0 + 0x1p-8 + 0x1p-40, Dtype::bf16), 0x3F80);  // through float32
  EXPECT_EQ(converted<std::uint16_t>(Dtype::i64, std::int64_t{-3}, Dtype::bf16), 0xC040);
  EXPECT_EQ(converted<float>(Dtype::boolean, std::uint8_t{7}, Dtype::f32), 1.0F);
}

TEST(Convert, ReadsElementsApart) {
  const std::vector<std::uint16_t> halves{0x3C00, 0x4000, 0x4200, 0x4400};  // 1, 2, 3, 4
  std::vector<float> every_other(2);
  convert_elements(Dtype::f16, reinterpret_cast<const std::byte*>(halves.data()), 2, Dtype::f32,
                   reinterpret_cast<std::byte*>(every_other.data()), 2);
  EXPECT_EQ(every_other, (std::vector<float>{1.0F, 3.0F}));
}

TEST(Convert, RefusesWhatTorchHasNoNumberFor) {
  EXPECT_THROW(converted<float>(Dtype::c64, std::uint64_t{0}, Dtype::f32), Error);
  EXPECT_THROW(converted<std::uint64_t>(Dtype::f32, 1.0F, Dtype::i64), Error);
}

TEST(Filled, IsWhatTheEngineStartsWith) {
  const Parameter scale{
      .name = "s", .dtype = Dtype::f32, .shape = {3}, .extents = {1, 3, 1}, .initial = Initial::float_min};
  const Tensor tensor = filled(scale, Fill::initial, 0);
  std::uint32_t bits = 0;
  std::memcpy(&bits, tensor.bytes.data() + 8, sizeof bits);
  EXPECT_EQ(bits, 0xFF7FFFFFU);
}

TEST(Filled, HasNoNanWhereThereIsNone) {
  const Parameter exponents{.name = "s", .dtype = Dtype::u8, .shape = {2, 2}, .extents = {1, 2, 2}};
  EXPECT_EQ(filled(exponents, Fill::initial, 0).bytes, std::vector<std::byte>(4, std::byte{0xFF}));
  EXPECT_EQ(filled(exponents, Fill::sentinel, 0).bytes, std::vector<std::byte>(4, std::byte{0}));
}

TEST(Filled, RandomNumbersBelongToSeedAndName) {
  Parameter weight{.name = "o_proj", .dtype = Dtype::bf16, .shape = {64}, .extents = {1, 64, 1}};
  const auto first = filled(weight, Fill::random, 1).bytes;
  EXPECT_EQ(filled(weight, Fill::random, 1).bytes, first);
  EXPECT_NE(filled(weight, Fill::random, 2).bytes, first);
  weight.name = "q_b_proj";
  EXPECT_NE(filled(weight, Fill::random, 1).bytes, first);
}

TEST(Sha256, OfThreeBytes) {
  const std::vector<std::byte> abc{std::byte{'a'}, std::byte{'b'}, std::byte{'c'}};
  EXPECT_EQ(sha256(abc), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace mtpcheck
