#include "harness/loading/engines/numbers.h"

#include <limits>

#include "harness/loading/carry_out/carry_out.h"

namespace mtpcheck {
namespace {

WeightKey with_aspect(WeightKey key, Aspect aspect) {
  key.aspect = aspect;
  return key;
}

/// What one write leaves in a parameter that has just the write's box.
std::vector<double> carried_numbers(const Write& write, const Parameter& like, std::span<const TensorView> tensors) {
  const Box& box = write.box;
  LoadPlan alone;
  alone.parameters.push_back({.name = like.name,
                              .dtype = like.dtype,
                              .shape = {box.experts.size(), box.rows.size(), box.cols.size()},
                              .extents = {box.experts.size(), box.rows.size(), box.cols.size()}});
  alone.writes.push_back(write);
  alone.writes.back().parameter = 0;
  Tensor tensor = carry_out(alone, 0, tensors).tensor;
  const bool exponents = like.role == Role::scale && like.dtype == Dtype::u8;
  if (exponents) tensor.dtype = Dtype::f8_e8m0;
  return to_f64(tensor.view(like.name));
}

}  // namespace

const HeldWeight* EngineSide::find(const WeightKey& key) const {
  const auto found = held.find(key);
  return found == held.end() ? nullptr : &found->second;
}

std::vector<HeldSlice> EngineSide::slices(const HeldWeight& weight) const {
  return slices_of(weight, *plan, (*coverage)[weight.parameter]);
}

bool EngineSide::scaled(const WeightKey& key) const {
  return find(with_aspect(key, Aspect::scale)) != nullptr || find(with_aspect(key, Aspect::global_scale)) != nullptr;
}

std::vector<double> held_numbers(const EngineSide& side, const WeightKey& key, const Box& box,
                                 std::span<const TensorView> tensors) {
  std::vector<double> numbers(box.elements(), std::numeric_limits<double>::quiet_NaN());
  const HeldWeight& held = side.held.at(key);
  for (const HeldSlice& slice : side.slices(held)) {
    const Box part = intersection(slice.box, box);
    if (part.empty()) continue;
    const auto values = carried_numbers(slice.cut(part), side.plan->parameters[held.parameter], tensors);
    std::size_t at = 0;
    for (std::size_t e = part.experts.begin; e < part.experts.end; ++e) {
      for (std::size_t r = part.rows.begin; r < part.rows.end; ++r) {
        const std::size_t row =
            ((e - box.experts.begin) * box.rows.size() + r - box.rows.begin) * box.cols.size() - box.cols.begin;
        for (std::size_t c = part.cols.begin; c < part.cols.end; ++c) numbers[row + c] = values[at++];
      }
    }
  }
  return numbers;
}

std::vector<double> scaled_numbers(const EngineSide& side, const WeightKey& key, const Box& box,
                                   std::span<const TensorView> tensors) {
  auto numbers = held_numbers(side, key, box, tensors);
  for (const Aspect aspect : {Aspect::scale, Aspect::global_scale}) {
    const WeightKey scale = with_aspect(key, aspect);
    const HeldWeight* const held = side.find(scale);
    if (held == nullptr) continue;
    const Parameter& parameter = side.plan->parameters[held->parameter];
    const Extents extents = held->extents();
    const auto cells = held_numbers(side, scale, whole(extents), tensors);
    const bool single = parameter.scale_a_part || extents.elements() == 1;
    std::size_t at = 0;
    for (std::size_t e = box.experts.begin; e < box.experts.end; ++e) {
      for (std::size_t r = box.rows.begin; r < box.rows.end; ++r) {
        const std::size_t row = single ? 0 : (e * extents.rows + r / parameter.block_rows) * extents.cols;
        for (std::size_t c = box.cols.begin; c < box.cols.end; ++c) {
          numbers[at++] *= cells.at(single ? 0 : row + c / parameter.block_cols);
        }
      }
    }
  }
  return numbers;
}

}  // namespace mtpcheck
