#pragma once

#include <cmath>

#include "reference/math/rounding.h"
#include "reference/math/rows.h"

namespace mtpcheck {

/// 1 / (1 + e^−x)
template <class S>
S sigmoid(S x) {
  return S{1} / (S{1} + std::exp(-x));
}

/// x · sigmoid(x)
template <class S>
S silu(S x) {
  return x / (S{1} + std::exp(-x));
}

/// silu(min(gate, limit)) · clamp(up, −limit, limit): HY V4's SwiGLU, clamped on one side of the gate and both of up.
///
/// gate, up  [T, I] → [T, I]
/// limit     0: no clamp
/// silu_format, product_format  what a rounded run rounds silu and the product to
template <class S>
Rows<S> swiglu(const Rows<S>& gate, const Rows<S>& up, double limit, Format silu_format = Format::exact,
               Format product_format = Format::exact) {
  const auto bound = static_cast<S>(limit);
  return gate.binaryExpr(up, [=](S g, S u) {
    if (limit > 0) {  // comparisons that leave NaN as it is
      if (g > bound) g = bound;
      if (u > bound) u = bound;
      if (u < -bound) u = -bound;
    }
    return round_to(product_format, round_to(silu_format, silu(g)) * u);
  });
}

}  // namespace mtpcheck
