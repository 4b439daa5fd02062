#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mtpcheck {

/// Indices of the `count` largest scores, ascending; all of them when there are fewer. Of equal scores (−0 equals +0)
/// the lower index is taken. NaN counts as larger than everything, so that it cannot hide.
template <class S>
std::vector<std::int32_t> largest(std::span<const S> scores, std::size_t count);

/// What lies at the boundary of a selection of `count` among `scores`.
struct Boundary {
  double last_chosen = 0;     ///< the smallest score that is chosen
  double first_left_out = 0;  ///< the largest that is not
  std::size_t tied_in = 0;    ///< chosen scores equal to `first_left_out`; 0 unless the boundary is a tie
  std::size_t tied_out = 0;   ///< left-out scores equal to `last_chosen`
  bool everything = false;    ///< nothing is left out: there is no boundary
  double margin() const { return last_chosen - first_left_out; }
};

template <class S>
Boundary boundary(std::span<const S> scores, std::size_t count);

}  // namespace mtpcheck
