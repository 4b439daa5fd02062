#pragma once

#include <cstddef>
#include <span>

#include "harness/loading/engines/numbers.h"
#include "reference/tensor/tensor.h"

namespace mtpcheck {

/// How far two engines hold the same of one weight, in elements. Their sum is the weight's size where both know the
/// same.
struct Agreement {
  std::size_t same = 0;
  std::size_t different = 0;
  std::size_t only_first = 0;   ///< written by the first engine only
  std::size_t only_second = 0;  ///< by the second only
  std::size_t neither = 0;      ///< by none: both keep what memory held
  bool turned = false;          ///< the same, in another order of rows that each engine expects

  void add(const Agreement& other);
};

/// Compares what two engines hold of a weight that both have.
///
/// Elements are the same that come from the same element of the same tensor by conversions that keep the same number:
/// that needs headers only. Where they come from elsewhere, or only one engine keeps scales beside its numbers, the
/// numbers decide, as far as the tensors' bytes are there: twice the same bytes are the same weight.
///
/// Parameters of other extents are never the same.
Agreement agreement_of(const WeightKey& key, const EngineSide& first, const EngineSide& second,
                       std::span<const TensorView> tensors);

}  // namespace mtpcheck
