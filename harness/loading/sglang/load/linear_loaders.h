#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "harness/loading/sglang/head/head.h"
#include "harness/loading/symbolic/joined_view.h"

namespace mtpcheck::sglang {

/// The weight loader of any parameter but the experts'.
///
/// index   of the parameter in the plan
/// part    which projection of a merged parameter
/// tensor  the tensor at hand
///
/// Throws Raised where the loader raises. Nothing is copied then: each loader copies once, at its end.
std::vector<Write> load_linear(const EngineParameter& parameter, std::uint32_t index, const JoinedView& weight,
                               std::optional<std::size_t> part, std::uint32_t tensor);

}  // namespace mtpcheck::sglang
