#pragma once

#include <span>
#include <vector>

#include "harness/loading/engines/held.h"
#include "reference/tensor/tensor.h"

namespace mtpcheck {

/// One engine's side of a comparison; refers to its plan.
struct EngineSide {
  const LoadPlan* plan = nullptr;
  const std::vector<Coverage>* coverage = nullptr;
  HeldWeights held;

  const HeldWeight* find(const WeightKey& key) const;
  std::vector<HeldSlice> slices(const HeldWeight& weight) const;

  /// A scale, of a block, a row or the whole, belongs to the numbers of this key.
  bool scaled(const WeightKey& key) const;
};

/// The numbers of a box of a weight as the engine holds them, row-major, as float64; NaN where nothing was written.
/// uint8 scales are exponents, as E8M0. tensors  the request's headers, with data. Throws Error{input} without.
std::vector<double> held_numbers(const EngineSide& side, const WeightKey& key, const Box& box,
                                 std::span<const TensorView> tensors);

/// The same, times the engine's scales: what its kernels take the weight for, activations apart.
std::vector<double> scaled_numbers(const EngineSide& side, const WeightKey& key, const Box& box,
                                   std::span<const TensorView> tensors);

}  // namespace mtpcheck
