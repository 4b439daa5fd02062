// The matrix product for one instruction set. Included by kernel_baseline.cpp, kernel_avx2.cpp and kernel_avx512.cpp,
// which are compiled with different flags; everything here has internal linkage.
#pragma once

#include <cstddef>
#include <cstdint>

#include "reference/linear/kernel.h"
#include "reference/linear/vector_bytes.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace mtpcheck::kernel {
namespace {

inline constexpr std::size_t kParts = kLaneBytes / kVectorBytes;

template <class S>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float type __attribute__((vector_size(kVectorBytes)));
  typedef float unaligned __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));
};
template <>
struct VectorOf<double> {
  typedef double type __attribute__((vector_size(kVectorBytes)));
  typedef double unaligned __attribute__((vector_size(kVectorBytes), aligned(8), may_alias));
};
template <class S>
using Vector = typename VectorOf<S>::type;

/// The running sums of one output: 64 bytes, as many vectors as the machine needs for them.
template <class S>
struct Lanes {
  Vector<S> part[kParts];
};

template <class S>
inline __attribute__((always_inline)) Lanes<S> load_lanes(const S* at) {
  Lanes<S> lanes;
  for (std::size_t p = 0; p < kParts; ++p) {
    lanes.part[p] = *reinterpret_cast<const typename VectorOf<S>::unaligned*>(at + p * (kVectorBytes / sizeof(S)));
  }
  return lanes;
}

/// Pairwise: lane i with lane i + half, until one is left.
inline __attribute__((always_inline)) float sum_of(const Lanes<float>& lanes) {
  typedef float Four __attribute__((vector_size(16)));
#if defined(__AVX512F__)
  typedef float Eight __attribute__((vector_size(32)));
  const auto v = lanes.part[0];
  const Eight eight = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                      __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  const Four four =
      __builtin_shufflevector(eight, eight, 0, 1, 2, 3) + __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
#elif defined(__AVX2__)
  const auto eight = lanes.part[0] + lanes.part[1];
  const Four four =
      __builtin_shufflevector(eight, eight, 0, 1, 2, 3) + __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
#else
  const Four four = (lanes.part[0] + lanes.part[2]) + (lanes.part[1] + lanes.part[3]);
#endif
  const Four two = four + __builtin_shufflevector(four, four, 2, 3, 2, 3);
  return two[0] + two[1];
}

inline __attribute__((always_inline)) double sum_of(const Lanes<double>& lanes) {
  typedef double Two __attribute__((vector_size(16)));
#if defined(__AVX512F__)
  typedef double Four __attribute__((vector_size(32)));
  const auto v = lanes.part[0];
  const Four four = __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
  const Two two = __builtin_shufflevector(four, four, 0, 1) + __builtin_shufflevector(four, four, 2, 3);
#elif defined(__AVX2__)
  const auto four = lanes.part[0] + lanes.part[1];
  const Two two = __builtin_shufflevector(four, four, 0, 1) + __builtin_shufflevector(four, four, 2, 3);
#else
  const Two two = (lanes.part[0] + lanes.part[2]) + (lanes.part[1] + lanes.part[3]);
#endif
  return two[0] + two[1];
}

template <class S, int Tokens, int Rows>
inline __attribute__((always_inline)) void tile(const S* x, std::size_t x_stride, const S* w, std::size_t w_stride,
                                                std::size_t columns, S* out, std::size_t out_stride, bool first) {
  Lanes<S> sums[Tokens][Rows] = {};
  for (std::size_t c = 0; c < columns; c += kLaneBytes / sizeof(S)) {
    Lanes<S> xs[Tokens];
    for (int t = 0; t < Tokens; ++t) xs[t] = load_lanes(x + t * x_stride + c);
    for (int r = 0; r < Rows; ++r) {
      const Lanes<S> ws = load_lanes(w + r * w_stride + c);
      for (int t = 0; t < Tokens; ++t) {
        for (std::size_t p = 0; p < kParts; ++p) sums[t][r].part[p] += xs[t].part[p] * ws.part[p];
      }
    }
  }
  for (int t = 0; t < Tokens; ++t) {
    for (int r = 0; r < Rows; ++r) {
      S& cell = out[t * out_stride + r];
      const S sum = sum_of(sums[t][r]);
      cell = first ? sum : cell + sum;
    }
  }
}

#if defined(__AVX512F__)
inline constexpr int kTileTokens = 4;
inline constexpr int kTileRows = 6;
#elif defined(__AVX2__)
inline constexpr int kTileTokens = 2;
inline constexpr int kTileRows = 3;
#else
inline constexpr int kTileTokens = 1;
inline constexpr int kTileRows = 2;
#endif

/// A few rows of weights against all tokens.
template <class S, int Rows>
void tiles_of_rows(const S* x, std::size_t x_stride, std::size_t tokens, const S* w, std::size_t w_stride,
                   std::size_t columns, S* out, std::size_t out_stride, bool first) {
  std::size_t t = 0;
  for (; t + kTileTokens <= tokens; t += kTileTokens) {
    tile<S, kTileTokens, Rows>(x + t * x_stride, x_stride, w, w_stride, columns, out + t * out_stride, out_stride,
                               first);
  }
  for (; t < tokens; ++t) {
    tile<S, 1, Rows>(x + t * x_stride, x_stride, w, w_stride, columns, out + t * out_stride, out_stride, first);
  }
}

template <class T>
inline __attribute__((always_inline)) T load(const unsigned char* at) {
  T value;
  __builtin_memcpy(&value, at, sizeof(T));
  return value;
}

inline float bits_to_float(std::uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

inline float bf16_value(std::uint16_t bits) { return bits_to_float(std::uint32_t{bits} << 16); }

inline float f16_value(std::uint16_t bits) {
#if defined(__F16C__)
  return _cvtsh_ss(bits);
#else
  // The exponent field moved into place is 112 too small; infinities and NaN need their own exponent.
  const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16;
  const std::uint32_t magnitude = std::uint32_t{bits & 0x7FFFu} << 13;
  if (magnitude >= 0x0F800000u) return bits_to_float(sign | 0x7F800000u | (magnitude & 0x7FFFFFu));
  const float value = bits_to_float(magnitude) * 0x1p112F;
  return sign != 0 ? -value : value;
#endif
}

inline float e4m3_value(std::uint8_t bits) {
  if ((bits & 0x7Fu) == 0x7Fu) return __builtin_nanf("");
  // As a half with the same fields it is 2^8 too small.
  const auto half = static_cast<std::uint16_t>(((bits & 0x80u) << 8) | ((bits & 0x7Fu) << 7));
  return f16_value(half) * 256.0F;
}

inline float e5m2_value(std::uint8_t bits) { return f16_value(static_cast<std::uint16_t>(bits << 8)); }

inline float scale_value(const Weights& w, std::size_t cell) {
  switch (w.scale_storage) {
    case ScaleStorage::none:
      return 1.0F;
    case ScaleStorage::f32:
      return load<float>(w.scales + cell * 4);
    case ScaleStorage::bf16:
      return bf16_value(load<std::uint16_t>(w.scales + cell * 2));
    case ScaleStorage::f16:
      return f16_value(load<std::uint16_t>(w.scales + cell * 2));
    case ScaleStorage::e8m0: {
      const unsigned char bits = w.scales[cell];
      if (bits == 255) return __builtin_nanf("");
      return bits == 0 ? bits_to_float(0x00400000u) : bits_to_float(std::uint32_t{bits} << 23);
    }
  }
  return 1.0F;
}

/// Decodes `count` elements without their scale.
inline void decode_bf16(const unsigned char* at, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = bf16_value(load<std::uint16_t>(at + 2 * i));
}

inline void decode_f16(const unsigned char* at, std::size_t count, float* out) {
  std::size_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at + 2 * i))));
  }
#endif
  for (; i < count; ++i) out[i] = f16_value(load<std::uint16_t>(at + 2 * i));
}

inline void decode_e4m3(const unsigned char* at, std::size_t count, float* out) {
  std::size_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= count; i += 8) {
    const __m128i codes = _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at + i)));
    const __m128i magnitude = _mm_and_si128(codes, _mm_set1_epi16(0x7F));
    const __m128i sign = _mm_slli_epi16(_mm_and_si128(codes, _mm_set1_epi16(0x80)), 8);
    const __m128i is_nan = _mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7F));
    const __m128i half = _mm_or_si128(sign, _mm_slli_epi16(magnitude, 7));
    const __m128i marked = _mm_or_si128(half, _mm_and_si128(is_nan, _mm_set1_epi16(0x7E00)));
    _mm256_storeu_ps(out + i, _mm256_mul_ps(_mm256_cvtph_ps(marked), _mm256_set1_ps(256.0F)));
  }
#endif
  for (; i < count; ++i) out[i] = e4m3_value(at[i]);
}

inline void decode_e5m2(const unsigned char* at, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = e5m2_value(at[i]);
}

inline void decode_unscaled(Storage storage, const unsigned char* at, std::size_t count, float* out) {
  switch (storage) {
    case Storage::scalar:
    case Storage::f32:
      __builtin_memcpy(out, at, count * sizeof(float));
      return;
    case Storage::f64:
      for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<float>(load<double>(at + 8 * i));
      return;
    case Storage::bf16:
      return decode_bf16(at, count, out);
    case Storage::f16:
      return decode_f16(at, count, out);
    case Storage::e4m3:
      return decode_e4m3(at, count, out);
    case Storage::e5m2:
      return decode_e5m2(at, count, out);
  }
}

inline void decode_unscaled(Storage storage, const unsigned char* at, std::size_t count, double* out) {
  if (storage == Storage::scalar || storage == Storage::f64) {
    __builtin_memcpy(out, at, count * sizeof(double));
    return;
  }
  constexpr std::size_t kStep = 256;
  float block[kStep];
  const std::size_t size = storage == Storage::f32 ? 4 : storage == Storage::bf16 || storage == Storage::f16 ? 2 : 1;
  for (std::size_t i = 0; i < count; i += kStep) {
    const std::size_t n = count - i < kStep ? count - i : kStep;
    decode_unscaled(storage, at + i * size, n, block);
    for (std::size_t j = 0; j < n; ++j) out[i + j] = static_cast<double>(block[j]);
  }
}

template <class S>
inline std::size_t element_bytes(Storage storage) {
  switch (storage) {
    case Storage::scalar:
      return sizeof(S);
    case Storage::f64:
      return 8;
    case Storage::f32:
      return 4;
    case Storage::bf16:
    case Storage::f16:
      return 2;
    case Storage::e4m3:
    case Storage::e5m2:
      break;
  }
  return 1;
}

template <class S>
void decode(const Weights& w, std::size_t row, std::size_t first, std::size_t count, S* out) {
  decode_unscaled(w.storage, w.data + row * w.row_bytes + first * element_bytes<S>(w.storage), count, out);
  if (w.scale_storage == ScaleStorage::none) return;
  const std::size_t grid_row = (w.first_row + row) / w.block_rows * w.scale_stride;
  for (std::size_t c = first; c < first + count;) {
    const std::size_t cell = c / w.block_cols;
    const std::size_t end_of_cell = (cell + 1) * w.block_cols;
    const std::size_t end = end_of_cell < first + count ? end_of_cell : first + count;
    const S scale = static_cast<S>(scale_value(w, grid_row + cell));
    for (; c < end; ++c) out[c - first] *= scale;
  }
}

template <class S>
void product(const Product<S>& p) {
  constexpr std::size_t lanes = kLaneBytes / sizeof(S);
  constexpr std::size_t block = kBlockBytes / sizeof(S);
  // Tokens in groups whose block of x stays in the second-level cache; then one block of columns for all rows, so that
  // it is read from there, or, for few tokens, one row to its end, so that weights are read in one stream.
  constexpr std::size_t group = 192;
  const bool in_place =
      p.weights.storage == Storage::scalar && p.weights.scale_storage == ScaleStorage::none && p.columns % lanes == 0;
  const auto rows_times_block = [&](std::size_t t0, std::size_t tokens, std::size_t r0, std::size_t rows,
                                    std::size_t c0) {
    const std::size_t columns = p.columns - c0 < block ? p.columns - c0 : block;
    const std::size_t padded = (columns + lanes - 1) / lanes * lanes;
    const S* w = p.scratch;
    std::size_t w_stride = block;
    if (in_place) {
      w = reinterpret_cast<const S*>(p.weights.data + r0 * p.weights.row_bytes) + c0;
      w_stride = p.weights.row_bytes / sizeof(S);
    } else {
      for (std::size_t r = 0; r < rows; ++r) {
        S* at = p.scratch + r * block;
        decode(p.weights, r0 + r, c0, columns, at);
        for (std::size_t c = columns; c < padded; ++c) at[c] = 0;
      }
    }
    const S* x = p.x + t0 * p.x_stride + c0;
    S* out = p.out + t0 * p.out_stride + r0;
    if (rows == kTileRows) {
      tiles_of_rows<S, kTileRows>(x, p.x_stride, tokens, w, w_stride, padded, out, p.out_stride, c0 == 0);
    } else {
      for (std::size_t r = 0; r < rows; ++r) {
        tiles_of_rows<S, 1>(x, p.x_stride, tokens, w + r * w_stride, w_stride, padded, out + r, p.out_stride, c0 == 0);
      }
    }
  };
  for (std::size_t t0 = 0; t0 < p.tokens; t0 += group) {
    const std::size_t tokens = p.tokens - t0 < group ? p.tokens - t0 : group;
    const auto rows_at = [&](std::size_t r0) {
      return p.row_end - r0 < kTileRows ? p.row_end - r0 : std::size_t{kTileRows};
    };
    if (tokens <= 16) {
      for (std::size_t r0 = p.row_begin; r0 < p.row_end; r0 += kTileRows) {
        for (std::size_t c0 = 0; c0 < p.columns; c0 += block) rows_times_block(t0, tokens, r0, rows_at(r0), c0);
      }
    } else {
      for (std::size_t c0 = 0; c0 < p.columns; c0 += block) {
        for (std::size_t r0 = p.row_begin; r0 < p.row_end; r0 += kTileRows) {
          rows_times_block(t0, tokens, r0, rows_at(r0), c0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace mtpcheck::kernel
