#pragma once

#include <cstdint>
#include <vector>

#include "harness/loading/symbolic/joined_view.h"

namespace mtpcheck {

/// `default_weight_loader`, which vLLM and SGLang have in common: one element goes into one element, whatever the
/// shapes, and everything else must have the parameter's shape. Raises where it does not.
///
/// tensor  the tensor at hand
std::vector<Write> default_weight_loader(const TargetView& data, const JoinedView& weight, std::uint32_t tensor);

}  // namespace mtpcheck
