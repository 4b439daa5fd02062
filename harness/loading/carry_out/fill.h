#pragma once

#include <cstdint>

#include "harness/loading/plan/parameter.h"
#include "reference/tensor/tensor.h"

namespace mtpcheck {

/// What elements hold that nothing wrote.
enum class Fill : std::uint8_t {
  initial,   ///< what the engine puts there: 1, −∞, finfo.min, …; `nan` where it puts nothing
  nan,       ///< NaN, 255 for unsigned integers
  zero,      ///< 0; in F8_E8M0, which has no zero, 2^−127
  sentinel,  ///< the most negative finite number: finfo(float32).min and its like; 0 in unsigned types
  random,    ///< normal of deviation 0.02; scales within 2^±4 around 1
};

/// A tensor of the parameter's dtype and shape, every element filled. `random` depends on the seed and the parameter's
/// name alone.
Tensor filled(const Parameter& parameter, Fill fill, std::uint64_t seed);

}  // namespace mtpcheck
