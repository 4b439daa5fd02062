#pragma once

#include "reference/head/stages/frame.h"
#include "reference/math/norm.h"
#include "reference/math/rows.h"
#include "reference/model/weights.h"

namespace mtpcheck {

/// x Wᵀ as the layer defines it: inputs quantised where the weight is and the layer says so, deviations applied, and
/// nothing rounded.
template <class S>
Rows<S> project(const LayerDefinition& layer, const Rows<S>& x, const Matrix& w);

/// The same, rounded as a stored projection.
template <class S>
Rows<S> linear_of(const LayerDefinition& layer, const Rows<S>& x, const Matrix& w);

/// The matrix with deviations applied that concern how its bytes are read.
Matrix as_read(const LayerDefinition& layer, const Matrix& w);

/// RMSNorm with the layer's rounding and deviations.
template <class S>
Rows<S> norm_of(const LayerDefinition& layer, const Rows<S>& x, const Vector& weight, double eps);

/// Copies of columns [first, first + width) of each of `groups` groups of `size` columns, side by side.
template <class S>
Rows<S> columns_of_groups(const Rows<S>& x, std::size_t groups, std::size_t size, std::size_t first, std::size_t width);

}  // namespace mtpcheck
