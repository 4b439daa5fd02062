#pragma once

#include <cstdint>
#include <set>

#include "harness/parity/trace/trace.h"
#include "reference/model/input.h"

namespace mtpcheck {

/// Moves each value by up to 2⁻⁷ of itself, another way for each sample, and rounds it to the tensor's own type: zeros,
/// NaNs and infinities stay. Rounding errors of what is computed from it are then others of the same size.
Tensor nearby_values(const Tensor& tensor, std::uint64_t sample, std::uint64_t stream);

/// The hidden states moved; everything else as it is.
HeadInput nearby_input(HeadInput input, std::uint64_t sample);

/// The recorded stages of real numbers that are in `moved` moved; everything else as it is.
Trace nearby_trace(const Trace& trace, const std::set<Stage>& moved, std::uint64_t sample);

}  // namespace mtpcheck
