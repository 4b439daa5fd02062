#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "reference/tensor/tensor.h"
#include "reports/record/comparison.h"

namespace mtpcheck {

/// Coordinates of the `index`-th element of a row-major tensor.
std::vector<std::int64_t> coordinates(std::size_t index, std::span<const std::size_t> shape);

/// The `count` elements that differ most, largest first, earliest first among equals. Elements whose NaN or infinity
/// masks differ come before all others; elements that agree are not listed.
std::vector<reports::WorstElement> worst_elements(const TensorView& candidate, const TensorView& reference,
                                                  std::size_t count);

/// Root mean square of the error by channel (last dimension), over the elements that are finite on both sides.
std::vector<double> channel_errors(const TensorView& candidate, const TensorView& reference);

}  // namespace mtpcheck
