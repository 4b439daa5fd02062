#pragma once

#include "reference/tensor/tensor.h"
#include "reports/record/comparison.h"

namespace mtpcheck {

/// Percentiles of the relative error, distances in ulps of the candidate's type, sign flips, shares of zeros, and the
/// histogram of errors by decade. Elements that are not finite on both sides are left out (their masks are compared
/// elsewhere). Same number of elements on both sides.
reports::DistributionRecord distribution(const TensorView& candidate, const TensorView& reference);

/// Steps between neighbouring values of `type` (f32, bf16, f16) from `a` to `b`, both first rounded to it; −0 and +0
/// are the same value. 0 for f64.
double ulp_distance(Dtype type, double a, double b);

}  // namespace mtpcheck
