#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "reference/tensor/dtype.h"

namespace mtpcheck {

/// The arithmetic of a reference run. float64 is the truth; bf16 and f16 compute in float32 and round what an engine
/// of that precision stores (rounding_points.h).
enum class Precision : std::uint8_t { f64, f32, bf16, f16 };

std::string_view to_string(Precision precision);
std::optional<Precision> precision_from_name(std::string_view name);
Dtype dtype_of(Precision precision);

}  // namespace mtpcheck
