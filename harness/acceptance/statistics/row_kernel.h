#pragma once

#include <cstddef>

/// The loops of `row_statistics`, compiled several times for different instruction sets and chosen at run time. Plain
/// structs only: a translation unit with special flags must not emit a function that others share.
namespace mtpcheck::row_kernel {

/// A row is taken in blocks of this many logits; a block's exponentials are relative to its own largest logit.
inline constexpr std::size_t kBlock = 4096;

/// What one pass over a row leaves.
struct Scan {
  float largest = 0;      ///< a NaN never wins; it shows in its block's sum
  float runner_up = 0;    ///< equal to it on a tie
  std::size_t block = 0;  ///< first one that holds the largest
};

struct Kernels {
  const char* name;
  /// exponentials  [size]  e^((logit − pivot of its block) · scale), to 3 ulp of float32; a logit of −inf gives what is
  ///                       nothing beside a 1
  /// pivots, sums  [⌈size / kBlock⌉]  largest logit of each block, at least −FLT_MAX; Σ of its exponentials
  Scan (*scan)(const float* logits, std::size_t size, float scale, float* exponentials, float* pivots, float* sums);
  /// Σ min(a · factor_a, b · factor_b) over size elements of one block.
  float (*sum_of_minima)(const float* a, float factor_a, const float* b, float factor_b, std::size_t size);
};

extern const Kernels kBaseline;
#if defined(__x86_64__)
extern const Kernels kAvx2;
extern const Kernels kAvx512;
#endif

/// Those of the chosen instruction set.
const Kernels& chosen();

}  // namespace mtpcheck::row_kernel
