// The loops over rows of logits for one instruction set. Included by row_kernel_baseline.cpp, row_kernel_avx2.cpp and
// row_kernel_avx512.cpp, which are compiled with different flags; everything here has internal linkage.
#pragma once

#include <cfloat>
#include <cstddef>
#include <cstdint>

#include "harness/acceptance/statistics/row_kernel.h"
#include "reference/linear/vector_bytes.h"

#if defined(__AVX2__) || defined(__SSE2__)
#include <immintrin.h>
#endif

namespace mtpcheck::row_kernel {
namespace {

inline constexpr std::size_t kWidth = kVectorBytes / sizeof(float);

typedef float Floats __attribute__((vector_size(kVectorBytes)));
typedef std::int32_t Integers __attribute__((vector_size(kVectorBytes)));
typedef float Unaligned __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));

inline __attribute__((always_inline)) Floats load(const float* at) { return *reinterpret_cast<const Unaligned*>(at); }
inline __attribute__((always_inline)) void store(float* at, Floats value) { *reinterpret_cast<Unaligned*>(at) = value; }

// a > b ? a : b, so b where either is a NaN; and the contrary.
inline __attribute__((always_inline)) Floats larger(Floats a, Floats b) {
#if defined(__AVX512F__)
  return _mm512_maskz_max_ps(0xFFFF, a, b);  // GCC 12 warns of the plain one
#elif defined(__AVX2__)
  return _mm256_max_ps(a, b);
#elif defined(__SSE2__)
  return _mm_max_ps(a, b);
#else
  return a > b ? a : b;
#endif
}
inline __attribute__((always_inline)) Floats smaller(Floats a, Floats b) {
#if defined(__AVX512F__)
  return _mm512_maskz_min_ps(0xFFFF, a, b);
#elif defined(__AVX2__)
  return _mm256_min_ps(a, b);
#elif defined(__SSE2__)
  return _mm_min_ps(a, b);
#else
  return a < b ? a : b;
#endif
}

// e^x for x ≤ 0, to 3 ulp: 2^n · P(r), x = n·ln2 + r (Cody and Waite 1980), P the Taylor polynomial of degree 6. Below
// −87, −inf included, the result is that of −87, 1.6e-38.
inline __attribute__((always_inline)) Floats exp_of_negative(Floats x) {
  const Floats clamped = larger(Floats{} - 87.0F, x);
  const Floats shifted = clamped * 1.44269504F + 12582912.0F;  // 1.5 · 2^23: rounds to an integer in the low bits
  const Floats n = shifted - 12582912.0F;
  const Floats r = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;
  Floats poly = r * (1.0F / 720) + 1.0F / 120;
  poly = poly * r + 1.0F / 24;
  poly = poly * r + 1.0F / 6;
  poly = poly * r + 0.5F;
  poly = poly * r + 1.0F;
  poly = poly * r + 1.0F;
  return reinterpret_cast<Floats>(reinterpret_cast<Integers>(poly) + (reinterpret_cast<Integers>(shifted) << 23));
}

inline __attribute__((always_inline)) float sum_of(Floats lanes) {
  float sum = 0;
  for (std::size_t i = 0; i < kWidth; ++i) sum += lanes[i];
  return sum;
}

struct Top {
  Floats largest;
  Floats runner_up;
};

inline __attribute__((always_inline)) void take(Top& top, Floats x) {
  top.runner_up = larger(smaller(x, top.largest), top.runner_up);
  top.largest = larger(x, top.largest);
}

// One more number, for what no vector holds.
inline __attribute__((always_inline)) void take(Scan& scan, float x) {
  if (x > scan.largest) {
    scan.runner_up = scan.largest;
    scan.largest = x;
  } else if (x > scan.runner_up) {
    scan.runner_up = x;
  }
}

// A block's last elements, −inf behind them.
inline __attribute__((always_inline)) Floats load_tail(const float* at, std::size_t count) {
  Floats value = Floats{} - __builtin_inff();
  for (std::size_t i = 0; i < count; ++i) value[i] = at[i];
  return value;
}

Scan top_of_block(const float* logits, std::size_t size) {
  const Floats lowest = Floats{} - __builtin_inff();
  Top even{lowest, lowest};
  Top odd{lowest, lowest};
  std::size_t i = 0;
  for (; i + 2 * kWidth <= size; i += 2 * kWidth) {
    take(even, load(logits + i));
    take(odd, load(logits + i + kWidth));
  }
  Scan scan{-__builtin_inff(), -__builtin_inff(), 0};
  for (std::size_t lane = 0; lane < kWidth; ++lane) {
    take(scan, even.largest[lane]);
    take(scan, even.runner_up[lane]);
    take(scan, odd.largest[lane]);
    take(scan, odd.runner_up[lane]);
  }
  for (; i < size; ++i) take(scan, logits[i]);
  return scan;
}

// Computes on this block while the next one, of `next_size` logits, comes from memory.
float exponentials_of_block(const float* logits, std::size_t size, std::size_t next_size, float pivot, float scale,
                            float* exponentials) {
  Floats even{};
  Floats odd{};
  std::size_t i = 0;
  for (; i + 2 * kWidth <= size; i += 2 * kWidth) {
    if (i < next_size) __builtin_prefetch(logits + size + i);
    if (kVectorBytes == 64 && i + kWidth < next_size) __builtin_prefetch(logits + size + i + kWidth);
    const Floats first = exp_of_negative((load(logits + i) - pivot) * scale);
    const Floats second = exp_of_negative((load(logits + i + kWidth) - pivot) * scale);
    store(exponentials + i, first);
    store(exponentials + i + kWidth, second);
    even += first;
    odd += second;
  }
  float sum = sum_of(even + odd);
  for (; i < size; i += kWidth) {
    const std::size_t count = size - i < kWidth ? size - i : kWidth;
    const Floats tail = exp_of_negative((load_tail(logits + i, count) - pivot) * scale);
    for (std::size_t lane = 0; lane < count; ++lane) {
      exponentials[i + lane] = tail[lane];
      sum += tail[lane];
    }
  }
  return sum;
}

Scan scan_row(const float* logits, std::size_t size, float scale, float* exponentials, float* pivots, float* sums) {
  Scan row{-__builtin_inff(), -__builtin_inff(), 0};
  for (std::size_t first = 0, block = 0; first < size; first += kBlock, ++block) {
    const std::size_t count = size - first < kBlock ? size - first : kBlock;
    const Scan top = top_of_block(logits + first, count);
    if (top.largest > row.largest) row.block = block;
    take(row, top.largest);
    take(row, top.runner_up);
    pivots[block] = top.largest > -FLT_MAX ? top.largest : -FLT_MAX;
    const std::size_t rest = size - first - count;
    sums[block] = exponentials_of_block(logits + first, count, rest < kBlock ? rest : kBlock, pivots[block], scale,
                                        exponentials + first);
  }
  return row;
}

float minima_of_block(const float* a, float factor_a, const float* b, float factor_b, std::size_t size) {
  Floats even{};
  Floats odd{};
  std::size_t i = 0;
  for (; i + 2 * kWidth <= size; i += 2 * kWidth) {
    even += smaller(load(a + i) * factor_a, load(b + i) * factor_b);
    odd += smaller(load(a + i + kWidth) * factor_a, load(b + i + kWidth) * factor_b);
  }
  float sum = sum_of(even + odd);
  for (; i < size; ++i) {
    const float p = a[i] * factor_a;
    const float q = b[i] * factor_b;
    sum += p < q ? p : q;
  }
  return sum;
}

}  // namespace
}  // namespace mtpcheck::row_kernel
