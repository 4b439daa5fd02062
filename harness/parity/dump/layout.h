#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reference/model/stages.h"
#include "reference/tensor/tensor.h"

namespace mtpcheck {

/// Elements [first, first + count) of one dimension.
Tensor slice(const Tensor& tensor, std::size_t dimension, std::size_t first, std::size_t count);

/// Dimensions in another order: dimension i of the result is dimension order[i] of the tensor.
Tensor permuted(const Tensor& tensor, const std::vector<std::size_t>& order);

/// Tensors side by side in one dimension; all other extents and the dtype are equal.
Tensor joined(const std::vector<Tensor>& parts, std::size_t dimension);

/// The outcome of bringing a tensor into a stage's shape.
struct Fitted {
  Tensor tensor;        ///< of the expected shape; no shape when `problem` is set
  std::string done;     ///< what was done, in words; empty: nothing was necessary
  std::string problem;  ///< why it cannot be done; empty: it was
};

/// Brings a tensor into the shape of a stage where there is only one way: dimensions of extent 1 dropped, heads merged
/// or split, [N, T, d] turned to [T, N, d], padded vocabulary (logits) and padded tokens cut off, sets of selected ids
/// of any width. A tensor that has the stage's own shape is taken as it is: where there are as many tokens as heads,
/// [N, T, d] has to be told by the mapping's "order".
///
/// order  of the mapping, or empty
Fitted fit(Stage stage, const Tensor& tensor, const Shape& expected, const std::vector<std::size_t>& order);

/// Puts the shards of tensor-parallel ranks together: side by side in the one dimension whose extents add up, or one of
/// them where all ranks hold the same bytes.
Fitted join_ranks(Stage stage, const std::vector<Tensor>& ranks, const Shape& expected);

}  // namespace mtpcheck
