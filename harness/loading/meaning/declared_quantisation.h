#pragma once

#include <nlohmann/json_fwd.hpp>

#include "harness/loading/meaning/scale_grid.h"

namespace mtpcheck {

/// The layout that `quantization_config` speaks of, in the dialects of fp8, ModelOpt and compressed-tensors. Empty
/// where it is absent, not understood, or different from layer to layer.
DeclaredQuantisation declared_quantisation(const nlohmann::json& config);

}  // namespace mtpcheck
