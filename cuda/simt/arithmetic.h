#pragma once

#include "cuda/simt/qualifiers.h"

/// CUDA's scalar intrinsics. The approximate ones (__expf, __fdividef, ...) are computed exactly here: a device may
/// differ by the error that the CUDA programming guide allows them.
#if SIMT_ON_CPU

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's names
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
/// The position of the lowest set bit, counted from one; 0 for 0.
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline int __ffsll(long long x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned long long>(x)) + 1; }
unsigned __brev(unsigned x);
unsigned long long __brevll(unsigned long long x);
/// Bytes of {y, x} picked by the nibbles of `selector`; bit 3 of a nibble spreads the byte's sign.
unsigned __byte_perm(unsigned x, unsigned y, unsigned selector);
inline unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>((static_cast<std::uint64_t>(x) * y) >> 32);
}
inline int __mulhi(int x, int y) { return static_cast<int>((static_cast<std::int64_t>(x) * y) >> 32); }

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }

/// Conversions saturate and take NaN to 0, as cvt does; rn, rz, rd, ru: to nearest even, to zero, down, up.
int __float2int_rn(float x);
int __float2int_rz(float x);
int __float2int_rd(float x);
int __float2int_ru(float x);
unsigned __float2uint_rn(float x);
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }

// The C library declares some of these for its own use, without a definition: hence noexcept.
inline float __expf(float x) noexcept { return std::exp(x); }
inline float __exp10f(float x) noexcept { return std::pow(10.0f, x); }
inline float __logf(float x) noexcept { return std::log(x); }
inline float __log2f(float x) noexcept { return std::log2(x); }
inline float __sinf(float x) noexcept { return std::sin(x); }
inline float __cosf(float x) noexcept { return std::cos(x); }
inline float __powf(float x, float y) noexcept { return std::pow(x, y); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
// NOLINTEND(bugprone-reserved-identifier)
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float fdividef(float x, float y) { return x / y; }

/// CUDA has min and max in the global namespace; mixed signed and unsigned operands are left to the caller to cast.
template <class T>
requires std::is_arithmetic_v<T>
constexpr T min(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fmin(x, y);
  } else {
    return y < x ? y : x;
  }
}

template <class T>
requires std::is_arithmetic_v<T>
constexpr T max(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fmax(x, y);
  } else {
    return x < y ? y : x;
  }
}

#endif
