// One pass for max, mean, RMS, relative L2 and cosine, for one instruction set. Included by error_kernel_portable.cpp,
// error_kernel_avx2.cpp and error_kernel_avx512.cpp, which are compiled with different flags. Every level rounds alike:
// a·b + c is fused where it says so, and nowhere else (no contraction). Everything here has internal linkage.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "harness/parity/metrics/kernel/error_kernel.h"
#include "reference/linear/vector_bytes.h"
#include "reference/tensor/float_formats.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace mtpcheck {
namespace {

inline constexpr std::size_t kLanes = 16;  // of the sums, whatever the vectors' width
inline constexpr std::size_t kWidth = kVectorBytes / sizeof(double);
inline constexpr std::size_t kParts = kLanes / kWidth;

using Doubles = double __attribute__((vector_size(kVectorBytes)));
using Longs = std::int64_t __attribute__((vector_size(kVectorBytes)));

struct F64 {
  static constexpr std::size_t size = 8;
  static double value(const std::byte* at) {
    double value;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  static Doubles load(const std::byte* at) {
    Doubles values;
    std::memcpy(&values, at, sizeof(values));
    return values;
  }
};

struct F32 {
  static constexpr std::size_t size = 4;
  static double value(const std::byte* at) {
    float value;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  static Doubles load(const std::byte* at) {
#if defined(__AVX512F__)
    return _mm512_cvtps_pd(_mm256_loadu_ps(reinterpret_cast<const float*>(at)));
#elif defined(__AVX2__)
    return _mm256_cvtps_pd(_mm_loadu_ps(reinterpret_cast<const float*>(at)));
#else
    return Doubles{value(at), value(at + size)};
#endif
  }
};

struct Bf16 {
  static constexpr std::size_t size = 2;
  static double value(const std::byte* at) {
    std::uint16_t bits;
    std::memcpy(&bits, at, sizeof(bits));
    return bf16_to_f32(bits);
  }
  static Doubles load(const std::byte* at) {
#if defined(__AVX512F__)
    const __m256i words = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
    return _mm512_cvtps_pd(_mm256_castsi256_ps(_mm256_slli_epi32(words, 16)));
#elif defined(__AVX2__)
    const __m128i words = _mm_cvtepu16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
    return _mm256_cvtps_pd(_mm_castsi128_ps(_mm_slli_epi32(words, 16)));
#else
    return Doubles{value(at), value(at + size)};
#endif
  }
#if defined(__AVX2__)
  /// The largest magnitudes so far as bit patterns, which are in the order of the values: sixteen at a time.
  using Largest = __m256i;
  static void widen(Largest& largest, const std::byte* at) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
    largest = _mm256_max_epu16(largest, _mm256_and_si256(bits, _mm256_set1_epi16(0x7FFF)));
  }
  static double value_of(Largest largest) {
    std::uint16_t bits[kLanes];
    std::memcpy(bits, &largest, sizeof(bits));
    std::uint16_t most = 0;
    for (const std::uint16_t one : bits) most = one > most ? one : most;
    return bf16_to_f32(most);
  }
#endif
};

/// A type whose magnitudes are compared as they are stored.
template <class R>
concept ComparedAsStored = requires(typename R::Largest largest, const std::byte* at) {
  R::widen(largest, at);
};

/// Nothing, where magnitudes are compared as numbers.
template <class R>
struct StoredRange {
  void widen(const std::byte* /*reference*/) {}
};

template <ComparedAsStored R>
struct StoredRange<R> {
  typename R::Largest largest = {};
  void widen(const std::byte* reference) { R::widen(largest, reference); }
};

inline Doubles masked(Doubles values, Longs mask) {
  return reinterpret_cast<Doubles>(reinterpret_cast<Longs>(values) & mask);
}

inline Doubles magnitude(Doubles values) {
  return reinterpret_cast<Doubles>(reinterpret_cast<Longs>(values) & ~(std::int64_t{1} << 63));
}

/// The larger of each pair; the second where one is NaN.
inline Doubles larger(Doubles a, Doubles b) {
#if defined(__AVX512F__)
  return _mm512_max_pd(a, b);
#elif defined(__AVX2__)
  return _mm256_max_pd(a, b);
#else
  return a > b ? a : b;
#endif
}

/// a·b + c, rounded once. A processor without the instruction is slow here (and older than 2013).
inline Doubles fused(Doubles a, Doubles b, Doubles c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_pd(a, b, c);
#elif defined(__AVX2__)
  return _mm256_fmadd_pd(a, b, c);
#else
  return Doubles{std::fma(a[0], b[0], c[0]), std::fma(a[1], b[1], c[1])};
#endif
}

/// The sums of every kLanes-th element, kWidth of them. Σ c² and Σ (c − r)(c + r) follow from the others.
struct Part {
  Doubles max = {}, abs = {}, squares = {}, reference = {}, product = {}, range = {};
  Longs finite = {};  // minus their number; counted where masked only

  template <bool kMasked, bool kRange>
  void add(Doubles c, Doubles r) {
    Doubles d = c - r;
    if constexpr (kMasked) {
      const Longs is_finite = (d - d == Doubles{});
      d = masked(d, is_finite);
      r = masked(r, is_finite);
      finite += is_finite;
    }
    const Doubles size = magnitude(d);
    max = larger(size, max);
    if constexpr (kRange) range = larger(magnitude(r), range);
    abs += size;
    squares = fused(d, d, squares);
    reference = fused(r, r, reference);
    product = fused(d, r, product);
  }
};

using Lanes = Part[kParts];

template <class C, class R, bool kMasked>
void add(Lanes& lanes, const std::byte* candidate, const std::byte* reference) {
  for (std::size_t part = 0; part < kParts; ++part) {
    lanes[part].add<kMasked, kMasked || !ComparedAsStored<R>>(C::load(candidate + part * kWidth * C::size),
                                                              R::load(reference + part * kWidth * R::size));
  }
}

inline double sum(const Lanes& lanes, Doubles Part::*member) {
  double lane[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) lane[i] = (lanes[i / kWidth].*member)[i % kWidth];
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) lane[i] += lane[i + half];
  }
  return lane[0];
}

inline double largest(const Lanes& lanes, Doubles Part::*member) {
  double value = 0;
  for (std::size_t i = 0; i < kLanes; ++i) {
    const double lane = (lanes[i / kWidth].*member)[i % kWidth];
    value = lane > value ? lane : value;
  }
  return value;
}

inline std::size_t finite_elements(const Lanes& lanes) {
  std::int64_t finite = 0;
  for (std::size_t i = 0; i < kLanes; ++i) finite -= lanes[i / kWidth].finite[i % kWidth];
  return static_cast<std::size_t>(finite);
}

/// NaNs and infinities, element by element: reached only where a block has any.
template <class C, class R>
void classify(const std::byte* candidate, const std::byte* reference, std::size_t count, ErrorSums& sums) {
  for (std::size_t i = 0; i < count; ++i) {
    const double c = C::value(candidate + i * C::size);
    const double r = R::value(reference + i * R::size);
    if (std::isfinite(c - r)) continue;
    sums.candidate_nan += std::isnan(c) ? 1 : 0;
    sums.reference_nan += std::isnan(r) ? 1 : 0;
    sums.candidate_inf += std::isinf(c) ? 1 : 0;
    sums.reference_inf += std::isinf(r) ? 1 : 0;
    sums.mask_mismatches += c == r ? 0 : 1;  // NaN, one infinity, or a difference that overflows
  }
}

template <class C, class R>
std::size_t index_of(const std::byte* candidate, const std::byte* reference, std::size_t count, double error) {
  for (std::size_t i = 0; i < count; ++i) {
    if (std::abs(C::value(candidate + i * C::size) - R::value(reference + i * R::size)) == error) return i;
  }
  return 0;
}

template <class C, class R, bool kMasked>
ErrorSums sums_of(const std::byte* candidate, const std::byte* reference, std::size_t count) {
  Lanes lanes;
  StoredRange<R> stored;
  std::size_t at = 0;
  for (; at + kLanes <= count; at += kLanes) {
    add<C, R, kMasked>(lanes, candidate + at * C::size, reference + at * R::size);
    stored.widen(reference + at * R::size);
  }
  if (at < count) {  // the tail, padded with zeros, which change no sum
    std::byte c[kLanes * C::size] = {};
    std::byte r[kLanes * R::size] = {};
    std::memcpy(c, candidate + at * C::size, (count - at) * C::size);
    std::memcpy(r, reference + at * R::size, (count - at) * R::size);
    add<C, R, kMasked>(lanes, c, r);
    stored.widen(r);
  }
  ErrorSums sums;
  sums.max_abs = largest(lanes, &Part::max);
  sums.abs = sum(lanes, &Part::abs);
  sums.squares = sum(lanes, &Part::squares);
  sums.reference_squares = sum(lanes, &Part::reference);
  sums.energy_difference = sums.squares + 2 * sum(lanes, &Part::product);
  sums.candidate_squares = sums.reference_squares + sums.energy_difference;
  if constexpr (!kMasked && ComparedAsStored<R>) {
    sums.reference_range = R::value_of(stored.largest);
  } else {
    sums.reference_range = largest(lanes, &Part::range);
  }
  sums.elements = kMasked ? finite_elements(lanes) - (kLanes - count % kLanes) % kLanes : count;
  return sums;
}

/// A NaN or an infinity on any side leaves none of these sums finite; the block is then gone through once more, without
/// such elements.
template <class C, class R>
ErrorSums gather(const std::byte* candidate, const std::byte* reference, std::size_t count, double max_so_far) {
  ErrorSums sums = sums_of<C, R, false>(candidate, reference, count);
  if (!std::isfinite(sums.squares) || !std::isfinite(sums.reference_squares)) {
    sums = sums_of<C, R, true>(candidate, reference, count);
    if (sums.elements != count) classify<C, R>(candidate, reference, count, sums);
  }
  if (sums.max_abs > max_so_far) sums.max_index = index_of<C, R>(candidate, reference, count, sums.max_abs);
  return sums;
}

template <class C>
ErrorKernel against(KernelType reference) {
  if (reference == KernelType::f64) return gather<C, F64>;
  if (reference == KernelType::f32) return gather<C, F32>;
  return gather<C, Bf16>;
}

inline ErrorKernel kernel_for(KernelType candidate, KernelType reference) {
  if (candidate == KernelType::f64) return against<F64>(reference);
  if (candidate == KernelType::f32) return against<F32>(reference);
  return against<Bf16>(reference);
}

}  // namespace
}  // namespace mtpcheck
