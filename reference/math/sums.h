#pragma once

#include <array>
#include <cstddef>

namespace mtpcheck {

/// Σ term(i) for i < count in one fixed order: eight running sums, added pairwise. A library's reduction may begin
/// where memory happens to be aligned, and then equal rows give unequal bits.
template <class S, class Term>
S ordered_sum(std::size_t count, Term term) {
  constexpr std::size_t lanes = 8;
  std::array<S, lanes> sums{};
  const std::size_t whole = count / lanes * lanes;
  for (std::size_t i = 0; i < whole; i += lanes) {
    for (std::size_t j = 0; j < lanes; ++j) sums[j] += term(i + j);
  }
  for (std::size_t i = whole; i < count; ++i) sums[i - whole] += term(i);
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

}  // namespace mtpcheck
