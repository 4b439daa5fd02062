#include "cuda/simt/arithmetic.h"

#include <limits>

namespace {

template <class Integer>
Integer saturate(double x) {
  if (std::isnan(x)) return 0;
  if (x <= static_cast<double>(std::numeric_limits<Integer>::min())) return std::numeric_limits<Integer>::min();
  if (x >= static_cast<double>(std::numeric_limits<Integer>::max())) return std::numeric_limits<Integer>::max();
  return static_cast<Integer>(x);
}

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's names
unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int bit = 0; bit < 32; ++bit) reversed |= ((x >> bit) & 1u) << (31 - bit);
  return reversed;
}

unsigned long long __brevll(unsigned long long x) {
  return (static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32) |
         __brev(static_cast<unsigned>(x >> 32));
}

unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const std::uint64_t bytes = (static_cast<std::uint64_t>(y) << 32) | x;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned choice = selector >> (4 * i);
    auto byte = static_cast<unsigned>(bytes >> (8 * (choice & 7u))) & 0xFFu;
    if ((choice & 8u) != 0) byte = (byte & 0x80u) != 0 ? 0xFFu : 0u;
    result |= byte << (8 * i);
  }
  return result;
}

int __float2int_rn(float x) { return saturate<int>(std::nearbyint(static_cast<double>(x))); }
int __float2int_rz(float x) { return saturate<int>(std::trunc(static_cast<double>(x))); }
int __float2int_rd(float x) { return saturate<int>(std::floor(static_cast<double>(x))); }
int __float2int_ru(float x) { return saturate<int>(std::ceil(static_cast<double>(x))); }
unsigned __float2uint_rn(float x) { return saturate<unsigned>(std::nearbyint(static_cast<double>(x))); }
// NOLINTEND(bugprone-reserved-identifier)
