#pragma once

#include <Eigen/Core>

namespace mtpcheck {

/// A block of rows, one a token (or a token and head), row-major. S is float or double.
template <class S>
using Rows = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// A weight or bias vector as one row.
template <class S>
using Row = Eigen::Matrix<S, 1, Eigen::Dynamic, Eigen::RowMajor>;

/// Rows that lie inside a wider matrix: a head's columns, a part of a fused projection.
template <class S>
using RowsView = Eigen::Map<const Rows<S>, 0, Eigen::OuterStride<>>;

}  // namespace mtpcheck
