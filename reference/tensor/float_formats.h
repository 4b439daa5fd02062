#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

/// Scalar conversions between float32 and the short formats, written out bit by bit so that they are the same on every
/// compiler. All roundings are to nearest, ties to even.
namespace mtpcheck {

inline float bf16_to_f32(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

inline std::uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

float f16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_f16(float value);

/// OCP E4M3 (fn): 0x7F and 0xFF are NaN, the largest magnitude is 448.
float e4m3_to_f32(std::uint8_t bits);
/// Saturates to ±448, infinities included, as torch's cast does; NaN stays NaN.
std::uint8_t f32_to_e4m3(float value);

/// E5M2 with infinities.
float e5m2_to_f32(std::uint8_t bits);

/// 2^(bits − 127); 255 is NaN, 0 is 2^−127 (a float32 subnormal, exact).
inline float e8m0_to_f32(std::uint8_t bits) {
  if (bits == 255) return std::numeric_limits<float>::quiet_NaN();
  if (bits == 0) return std::bit_cast<float>(0x00400000u);
  return std::bit_cast<float>(std::uint32_t{bits} << 23);
}

/// Rounds to the nearest value that the format holds, still as float32.
inline float round_to_bf16(float value) { return bf16_to_f32(f32_to_bf16(value)); }
inline float round_to_f16(float value) {
  const float magnitude = std::fabs(value);
  if (magnitude >= 65520.0F) return std::copysign(std::numeric_limits<float>::infinity(), value);
  // Below the normal range the steps are 2^-24, which is the last place of numbers in [0.5, 1).
  if (magnitude < 0x1p-14F) return std::copysign((magnitude + 0.75F) - 0.75F, value);
  if (std::isnan(value)) return value;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0xFFFu + ((bits >> 13) & 1u)) & ~0x1FFFu);
}

}  // namespace mtpcheck
