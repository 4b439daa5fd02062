// One pass for max, mean, RMS, relative L2 and cosine. Compiled without contraction of a·b + c, so that every level
// rounds alike; the levels differ in instructions only.
#include "harness/parity/metrics/error_kernel.h"

#include <array>
#include <cmath>
#include <cstring>

#include "reference/tensor/float_formats.h"

namespace mtpcheck {
namespace {

constexpr std::size_t kLanes = 8;
using Doubles = double __attribute__((vector_size(64)));
using Longs = std::int64_t __attribute__((vector_size(64)));
using Floats = float __attribute__((vector_size(32)));
using Words = std::uint32_t __attribute__((vector_size(32)));
using Halves = std::uint16_t __attribute__((vector_size(16)));

struct F64 {
  static constexpr std::size_t size = 8;
  [[gnu::always_inline]] static inline Doubles load(const std::byte* at) {
    Doubles values;
    std::memcpy(&values, at, sizeof(values));
    return values;
  }
};

struct F32 {
  static constexpr std::size_t size = 4;
  [[gnu::always_inline]] static inline Doubles load(const std::byte* at) {
    Floats values;
    std::memcpy(&values, at, sizeof(values));
    return __builtin_convertvector(values, Doubles);
  }
};

struct Bf16 {
  static constexpr std::size_t size = 2;
  [[gnu::always_inline]] static inline Doubles load(const std::byte* at) {
    Halves bits;
    std::memcpy(&bits, at, sizeof(bits));
    const Words words = __builtin_convertvector(bits, Words) << 16;
    return __builtin_convertvector(reinterpret_cast<Floats>(words), Doubles);
  }
};

[[gnu::always_inline]] inline Doubles masked(Doubles values, Longs mask) {
  return reinterpret_cast<Doubles>(reinterpret_cast<Longs>(values) & mask);
}

[[gnu::always_inline]] inline Doubles magnitude(Doubles values) {
  constexpr std::int64_t kSign = std::int64_t{1} << 63;
  return reinterpret_cast<Doubles>(reinterpret_cast<Longs>(values) & ~kSign);
}

struct Lanes {
  Doubles max = {}, abs = {}, squares = {}, reference = {}, candidate = {}, energy = {}, range = {};
  Longs finite = {};  // minus their number
};

[[gnu::always_inline]] inline void accumulate(Lanes& lanes, Doubles c, Doubles r) {
  const Doubles difference = c - r;
  const Longs finite = (difference - difference == Doubles{});
  const Doubles d = masked(difference, finite);
  c = masked(c, finite);
  r = masked(r, finite);
  const Doubles size = magnitude(d);
  const Doubles extent = magnitude(r);
  lanes.max = size > lanes.max ? size : lanes.max;
  lanes.range = extent > lanes.range ? extent : lanes.range;
  lanes.abs += size;
  lanes.squares += d * d;
  lanes.reference += r * r;
  lanes.candidate += c * c;
  lanes.energy += d * (c + r);
  lanes.finite += finite;
}

template <class C>
[[gnu::always_inline]] inline double value_at(const std::byte* data, std::size_t index) {
  std::array<std::byte, kLanes * C::size> padded{};
  std::memcpy(padded.data(), data + index * C::size, C::size);
  return C::load(padded.data())[0];
}

double sum(Doubles lanes) {
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

double largest(Doubles lanes) {
  double value = 0;
  for (std::size_t i = 0; i < kLanes; ++i) value = lanes[i] > value ? lanes[i] : value;
  return value;
}

/// NaNs and infinities, element by element: reached only where a block has any.
template <class C, class R>
void classify(const std::byte* candidate, const std::byte* reference, std::size_t count, ErrorSums& sums) {
  for (std::size_t i = 0; i < count; ++i) {
    const double c = value_at<C>(candidate, i);
    const double r = value_at<R>(reference, i);
    if (std::isfinite(c - r)) continue;
    sums.candidate_nan += std::isnan(c) ? 1 : 0;
    sums.reference_nan += std::isnan(r) ? 1 : 0;
    sums.candidate_inf += std::isinf(c) ? 1 : 0;
    sums.reference_inf += std::isinf(r) ? 1 : 0;
    sums.mask_mismatches += c == r ? 0 : 1;  // false for NaN, for one infinity, and where the difference overflows
  }
}

template <class C, class R>
std::size_t index_of(const std::byte* candidate, const std::byte* reference, std::size_t count, double error) {
  for (std::size_t i = 0; i < count; ++i) {
    if (std::abs(value_at<C>(candidate, i) - value_at<R>(reference, i)) == error) return i;
  }
  return 0;
}

template <class C, class R>
[[gnu::always_inline]] inline ErrorSums gather(const std::byte* candidate, const std::byte* reference,
                                               std::size_t count, double max_so_far) {
  Lanes lanes;
  std::size_t at = 0;
  for (; at + kLanes <= count; at += kLanes) {
    accumulate(lanes, C::load(candidate + at * C::size), R::load(reference + at * R::size));
  }
  if (at < count) {  // the tail, padded with zeros, which change no sum
    std::array<std::byte, kLanes * C::size> c{};
    std::array<std::byte, kLanes * R::size> r{};
    std::memcpy(c.data(), candidate + at * C::size, (count - at) * C::size);
    std::memcpy(r.data(), reference + at * R::size, (count - at) * R::size);
    accumulate(lanes, C::load(c.data()), R::load(r.data()));
  }
  const std::size_t padding = (kLanes - count % kLanes) % kLanes;
  ErrorSums sums;
  sums.max_abs = largest(lanes.max);
  sums.abs = sum(lanes.abs);
  sums.squares = sum(lanes.squares);
  sums.reference_squares = sum(lanes.reference);
  sums.candidate_squares = sum(lanes.candidate);
  sums.energy_difference = sum(lanes.energy);
  sums.reference_range = largest(lanes.range);
  std::int64_t finite = 0;
  for (std::size_t i = 0; i < kLanes; ++i) finite -= lanes.finite[i];
  sums.elements = static_cast<std::size_t>(finite) - padding;
  if (sums.elements != count) classify<C, R>(candidate, reference, count, sums);
  if (sums.max_abs > max_so_far) sums.max_index = index_of<C, R>(candidate, reference, count, sums.max_abs);
  return sums;
}

template <class C, class R>
ErrorSums portable(const std::byte* candidate, const std::byte* reference, std::size_t count, double max_so_far) {
  return gather<C, R>(candidate, reference, count, max_so_far);
}

#ifdef __x86_64__
template <class C, class R>
[[gnu::target("avx2")]] ErrorSums with_avx2(const std::byte* candidate, const std::byte* reference, std::size_t count,
                                            double max_so_far) {
  return gather<C, R>(candidate, reference, count, max_so_far);
}

template <class C, class R>
[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl")]] ErrorSums with_avx512(const std::byte* candidate,
                                                                            const std::byte* reference,
                                                                            std::size_t count, double max_so_far) {
  return gather<C, R>(candidate, reference, count, max_so_far);
}
#endif

template <class C, class R>
ErrorKernel at_level(KernelLevel level) {
#ifdef __x86_64__
  if (level == KernelLevel::avx512) return with_avx512<C, R>;
  if (level == KernelLevel::avx2) return with_avx2<C, R>;
#endif
  (void)level;
  return portable<C, R>;
}

template <class C>
ErrorKernel for_reference(KernelType reference, KernelLevel level) {
  switch (reference) {
    case KernelType::f64:
      return at_level<C, F64>(level);
    case KernelType::f32:
      return at_level<C, F32>(level);
    case KernelType::bf16:
      break;
  }
  return at_level<C, Bf16>(level);
}

}  // namespace

bool supported(KernelLevel level) {
#ifdef __x86_64__
  if (level == KernelLevel::avx512) {
    return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
           __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  }
  if (level == KernelLevel::avx2) return __builtin_cpu_supports("avx2") != 0;
#endif
  return level == KernelLevel::portable;
}

ErrorKernel error_kernel(KernelType candidate, KernelType reference, KernelLevel level) {
  switch (candidate) {
    case KernelType::f64:
      return for_reference<F64>(reference, level);
    case KernelType::f32:
      return for_reference<F32>(reference, level);
    case KernelType::bf16:
      break;
  }
  return for_reference<Bf16>(reference, level);
}

ErrorKernel error_kernel(KernelType candidate, KernelType reference) {
  static const KernelLevel best = supported(KernelLevel::avx512) ? KernelLevel::avx512
                                  : supported(KernelLevel::avx2) ? KernelLevel::avx2
                                                                 : KernelLevel::portable;
  return error_kernel(candidate, reference, best);
}

}  // namespace mtpcheck
