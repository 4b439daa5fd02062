#include "harness/loading/plan/layer_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace mtpcheck {
namespace {

Extents extents_of(const Shape& shape, bool experts) {
  const auto size = [&](std::size_t dim) { return dim < shape.size() ? shape[dim] : 1; };
  return experts ? Extents{size(0), size(1), size(2)} : Extents{1, size(0), size(1)};
}

Parameter described(std::string name, Dtype dtype, Shape shape, Initial initial, Role role, bool experts) {
  Parameter parameter{.name = std::move(name), .dtype = dtype, .shape = std::move(shape), .initial = initial};
  parameter.extents = extents_of(parameter.shape, experts);
  parameter.role = role;
  return parameter;
}

void set_scaled(Parameter& parameter, std::string weight, ScaleBlock block) {
  parameter.scales = std::move(weight);
  parameter.block_rows = block.rows;
  parameter.block_cols = block.cols;
}

// The parts' rows, in blocks that each part begins anew.
std::vector<Part> parts_in_blocks(const LinearShape& shape, std::size_t block) {
  std::vector<Part> parts;
  std::size_t first = 0;
  for (std::size_t part = 0; part < shape.parts.size() && shape.parts.size() > 1; ++part) {
    const std::size_t begin = blocks_of(first, block);
    parts.push_back({shape.parts[part], {begin, begin + blocks_of(shape.part_rows[part], block)}});
    first += shape.part_rows[part];
  }
  return parts;
}

std::vector<Part> equal_parts(const ExpertShape& shape, std::size_t rows) {
  std::vector<Part> parts;
  for (std::size_t part = 0; part < shape.parts.size(); ++part) {
    parts.push_back({shape.parts[part], {part * rows, (part + 1) * rows}});
  }
  return parts;
}

Parameter of_experts(const ExpertShape& shape, std::string_view name, Dtype dtype, Shape extents, Initial initial,
                     Role role) {
  Parameter parameter =
      described(fmt::format("{}_{}", shape.stem, name), dtype, std::move(extents), initial, role, true);
  parameter.layer = shape.layer;
  parameter.experts = shape.experts;
  return parameter;
}

}  // namespace

std::size_t blocks_of(std::size_t size, std::size_t block) { return (size + block - 1) / block; }

std::size_t LinearShape::rows() const { return std::reduce(part_rows.begin(), part_rows.end()); }

Parameter linear_weight(const LinearShape& shape, Dtype dtype, std::size_t stored_cols) {
  Parameter parameter = described(shape.name + ".weight", dtype, {shape.rows(), stored_cols}, Initial::uninitialised,
                                  Role::weight, false);
  parameter.layer = shape.layer;
  parameter.parts = parts_in_blocks(shape, 1);
  return parameter;
}

Parameter linear_scale_grid(const LinearShape& shape, std::string_view name, Dtype dtype, ScaleBlock block,
                            Initial initial) {
  Parameter parameter =
      described(fmt::format("{}.{}", shape.name, name), dtype,
                {blocks_of(shape.rows(), block.rows), blocks_of(shape.cols, block.cols)}, initial, Role::scale, false);
  parameter.layer = shape.layer;
  set_scaled(parameter, shape.name + ".weight", block);
  parameter.parts = parts_in_blocks(shape, block.rows);
  return parameter;
}

Parameter linear_scalars(const LinearShape& shape, std::string_view name, Role role, Initial initial, bool each_part) {
  const std::size_t count = each_part ? shape.parts.size() : 1;
  Parameter parameter = described(fmt::format("{}.{}", shape.name, name), Dtype::f32, {count}, initial, role, false);
  parameter.layer = shape.layer;
  set_scaled(parameter, shape.name + ".weight", {shape.rows(), shape.cols});
  parameter.scale_a_part = count > 1;
  for (std::size_t part = 0; part < count && count > 1; ++part) {
    parameter.parts.push_back({shape.parts[part], {part, part + 1}});
  }
  return parameter;
}

Parameter expert_weight(const ExpertShape& shape, Dtype dtype, std::size_t stored_cols) {
  Parameter parameter = of_experts(shape, "weight", dtype, {shape.experts.size(), shape.rows, stored_cols},
                                   Initial::uninitialised, Role::weight);
  parameter.parts = equal_parts(shape, shape.rows / std::max<std::size_t>(shape.parts.size(), 1));
  return parameter;
}

Parameter expert_scale_grid(const ExpertShape& shape, std::string_view name, Dtype dtype, ScaleBlock block,
                            Initial initial) {
  const std::size_t parts = std::max<std::size_t>(shape.parts.size(), 1);
  const std::size_t rows = blocks_of(shape.rows / parts, block.rows);
  Parameter parameter =
      of_experts(shape, name, dtype, {shape.experts.size(), parts * rows, blocks_of(shape.cols, block.cols)}, initial,
                 Role::scale);
  set_scaled(parameter, shape.stem + "_weight", block);
  parameter.parts = equal_parts(shape, rows);
  return parameter;
}

Parameter expert_scalars(const ExpertShape& shape, std::string_view name, Role role, Initial initial, bool each_part) {
  const std::size_t count = each_part ? std::max<std::size_t>(shape.parts.size(), 1) : 1;
  Shape extents{shape.experts.size()};
  if (count > 1) extents.push_back(count);
  Parameter parameter = of_experts(shape, name, Dtype::f32, std::move(extents), initial, role);
  set_scaled(parameter, shape.stem + "_weight", {shape.rows / count, shape.cols});
  parameter.scale_a_part = count > 1;
  if (count > 1) parameter.parts = equal_parts(shape, 1);
  return parameter;
}

Parameter plain_parameter(std::string name, Dtype dtype, Shape shape, Initial initial, Role role, std::size_t layer) {
  Parameter parameter = described(std::move(name), dtype, std::move(shape), initial, role, false);
  parameter.layer = layer;
  return parameter;
}

}  // namespace mtpcheck
