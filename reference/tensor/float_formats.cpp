#include "reference/tensor/float_formats.h"

namespace mtpcheck {
namespace {

// A float of `exponent_bits` and `mantissa_bits` with subnormals; the caller has dealt with infinities and NaN.
float decode(unsigned sign, unsigned exponent, unsigned mantissa, int bias, int mantissa_bits) {
  const float fraction = std::ldexp(static_cast<float>(mantissa), -mantissa_bits);
  const float magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1.0F + fraction, static_cast<int>(exponent) - bias);
  return sign != 0 ? -magnitude : magnitude;
}

}  // namespace

float f16_to_f32(std::uint16_t bits) {
  const unsigned sign = bits >> 15;
  const unsigned exponent = (bits >> 10) & 0x1Fu;
  const unsigned mantissa = bits & 0x3FFu;
  if (exponent == 0x1F) {
    return std::bit_cast<float>((sign << 31) | 0x7F800000u | (mantissa << 13));
  }
  return decode(sign, exponent, mantissa, 15, 10);
}

std::uint16_t f32_to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7E00u | ((bits >> 13) & 0x3FFu));
  const float magnitude = std::fabs(value);
  if (magnitude >= 65520.0F) return static_cast<std::uint16_t>(sign | 0x7C00u);
  // Scaled so that the unit of the last place is 1, nearbyint rounds to nearest even.
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude = m · 2^exponent with m in [0.5, 1)
  const int unit = magnitude == 0.0F || exponent < -13 ? -24 : exponent - 11;
  const auto steps = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(magnitude, -unit)));
  // Subnormals and normals are one arithmetic sequence of bit patterns: carries into the exponent come out right.
  const std::uint32_t base = unit == -24 ? 0u : static_cast<std::uint32_t>(unit + 24) << 10;
  return static_cast<std::uint16_t>(sign | (base + steps));
}

float e4m3_to_f32(std::uint8_t bits) {
  if ((bits & 0x7Fu) == 0x7Fu) return std::numeric_limits<float>::quiet_NaN();
  return decode(bits >> 7, (bits >> 3) & 0xFu, bits & 0x7u, 7, 3);
}

std::uint8_t f32_to_e4m3(float value) {
  const auto sign = static_cast<std::uint8_t>(std::signbit(value) ? 0x80u : 0u);
  if (std::isnan(value)) return static_cast<std::uint8_t>(sign | 0x7Fu);
  const float magnitude = std::fabs(value);
  if (magnitude >= 448.0F) return static_cast<std::uint8_t>(sign | 0x7Eu);
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int unit = magnitude == 0.0F || exponent < -5 ? -9 : exponent - 4;
  const auto steps = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(magnitude, -unit)));
  const std::uint32_t base = unit == -9 ? 0u : static_cast<std::uint32_t>(unit + 9) << 3;
  return static_cast<std::uint8_t>(sign | (base + steps));
}

float e5m2_to_f32(std::uint8_t bits) {
  const unsigned sign = bits >> 7;
  const unsigned exponent = (bits >> 2) & 0x1Fu;
  const unsigned mantissa = bits & 0x3u;
  if (exponent == 0x1F) {
    return std::bit_cast<float>((sign << 31) | 0x7F800000u | (mantissa << 21));
  }
  return decode(sign, exponent, mantissa, 15, 2);
}

}  // namespace mtpcheck
