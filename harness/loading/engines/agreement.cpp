#include "harness/loading/engines/agreement.h"

#include <algorithm>
#include <cmath>

namespace mtpcheck {
namespace {

/// Every number of `from` is one of `to`.
bool holds_exactly(Dtype from, Dtype to) {
  if (from == to) return true;
  const bool small = from == Dtype::bf16 || from == Dtype::f16 || from == Dtype::f8_e4m3 || from == Dtype::f8_e5m2 ||
                     from == Dtype::f8_e8m0 || from == Dtype::u8;
  if (to == Dtype::f32) return small;
  return to == Dtype::bf16 && (from == Dtype::f8_e4m3 || from == Dtype::f8_e5m2);
}

/// A write with the dtype and the role of what it goes to.
struct Arrival {
  const Write* write;
  const Parameter* parameter;

  const Conversion& how() const { return write->conversion; }
  bool keeps_the_bytes() const { return how().kind == Conversion::Kind::number && how().read_as == parameter->dtype; }
  /// What the engine takes the parameter's bytes for.
  Dtype meaning() const {
    const bool exponents = parameter->role == Role::scale && parameter->dtype == Dtype::u8;
    return exponents ? Dtype::f8_e8m0 : parameter->dtype;
  }
};

/// One source element becomes the same number in both.
bool same_conversion(const Arrival& a, const Arrival& b) {
  if (a.how().kind != b.how().kind) return false;
  switch (a.how().kind) {
    case Conversion::Kind::fill:
      return a.meaning() == b.meaning() && a.how().constant == b.how().constant;
    case Conversion::Kind::dequantise:
      return a.parameter->dtype == b.parameter->dtype && a.how().read_as == b.how().read_as &&
             a.how().scale_tensor == b.how().scale_tensor && a.how().scale_read_as == b.how().scale_read_as &&
             a.how().group_rows == b.how().group_rows && a.how().group_cols == b.how().group_cols &&
             a.how().grid_cols == b.how().grid_cols;
    case Conversion::Kind::number:
      break;
  }
  if (a.keeps_the_bytes() && b.keeps_the_bytes()) return a.meaning() == b.meaning();
  if (a.how().read_as != b.how().read_as) return false;
  if (a.parameter->dtype == b.parameter->dtype) return a.meaning() == b.meaning();
  return a.meaning() == a.parameter->dtype && b.meaning() == b.parameter->dtype &&
         holds_exactly(a.how().read_as, a.parameter->dtype) && holds_exactly(b.how().read_as, b.parameter->dtype);
}

/// Both writes read the same elements of the same tensor, in the same order. They have boxes of the same size.
bool same_source(const Write& a, const Write& b) {
  if (a.conversion.kind == Conversion::Kind::fill) return true;
  if (a.tensor != b.tensor || a.source_element(0, 0, 0) != b.source_element(0, 0, 0)) return false;
  const std::array<std::size_t, 3> sizes{a.box.experts.size(), a.box.rows.size(), a.box.cols.size()};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const SourceAxis& left = a.axes[axis];
    const SourceAxis& right = b.axes[axis];
    if (sizes[axis] < 2) continue;
    if (left.stride != right.stride || left.repeat != right.repeat) return false;
    if (left.start % left.repeat != right.start % right.repeat) return false;
  }
  return true;
}

bool has_data(const Arrival& arrival, std::span<const TensorView> tensors) {
  if (arrival.how().kind == Conversion::Kind::fill) return true;
  const auto there = [&](std::uint32_t index) {
    return index == kNone || !tensors[index].bytes.empty() || tensors[index].elements() == 0;
  };
  return there(arrival.write->tensor) && there(arrival.how().scale_tensor);
}

/// Elements of the box in which both hold the same number; NaN is the same as NaN.
std::size_t equal_numbers(const WeightKey& key, const EngineSide& first, const EngineSide& second, const Box& box,
                          std::span<const TensorView> tensors, bool with_scales) {
  const auto of = [&](const EngineSide& side) {
    return with_scales ? scaled_numbers(side, key, box, tensors) : held_numbers(side, key, box, tensors);
  };
  const auto left = of(first);
  const auto right = of(second);
  std::size_t equal = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (left[i] == right[i] || (std::isnan(left[i]) && std::isnan(right[i]))) ++equal;
  }
  return equal;
}

/// The data of all scales that an engine keeps beside a weight.
bool scales_have_data(const WeightKey& key, const EngineSide& side, std::span<const TensorView> tensors) {
  for (const Aspect aspect : {Aspect::scale, Aspect::global_scale}) {
    const HeldWeight* const held = side.find({key.layer, key.weight, aspect});
    if (held == nullptr) continue;
    const Parameter& parameter = side.plan->parameters[held->parameter];
    const auto slices = side.slices(*held);
    if (!std::ranges::all_of(slices, [&](const HeldSlice& s) { return has_data({s.write, &parameter}, tensors); })) {
      return false;
    }
  }
  return true;
}

std::size_t elements_of_slices(const std::vector<HeldSlice>& slices) {
  std::size_t elements = 0;
  for (const HeldSlice& slice : slices) elements += slice.box.elements();
  return elements;
}

}  // namespace

void Agreement::add(const Agreement& other) {
  same += other.same;
  different += other.different;
  only_first += other.only_first;
  only_second += other.only_second;
  neither += other.neither;
  turned = turned || other.turned;
}

Agreement agreement_of(const WeightKey& key, const EngineSide& first, const EngineSide& second,
                       std::span<const TensorView> tensors) {
  const HeldWeight& left = first.held.at(key);
  const HeldWeight& right = second.held.at(key);
  const Parameter& left_parameter = first.plan->parameters[left.parameter];
  const Parameter& right_parameter = second.plan->parameters[right.parameter];
  const auto left_slices = first.slices(left);
  const auto right_slices = second.slices(right);
  const bool scaled_otherwise = key.aspect == Aspect::numbers && first.scaled(key) != second.scaled(key);
  const bool scales_known =
      scaled_otherwise && scales_have_data(key, first, tensors) && scales_have_data(key, second, tensors);

  Agreement result;
  std::size_t overlap = 0;
  for (const HeldSlice& a : left_slices) {
    for (const HeldSlice& b : right_slices) {
      const Box box = intersection(a.box, b.box);
      if (box.empty()) continue;
      overlap += box.elements();
      const Write from_a = a.cut(box);
      const Write from_b = b.cut(box);
      const Arrival in_a{&from_a, &left_parameter};
      const Arrival in_b{&from_b, &right_parameter};
      std::size_t same = 0;
      if (!scaled_otherwise && same_conversion(in_a, in_b) && same_source(from_a, from_b)) {
        same = box.elements();
      } else if (has_data(in_a, tensors) && has_data(in_b, tensors) && scaled_otherwise == scales_known) {
        same = equal_numbers(key, first, second, box, tensors, scaled_otherwise);
      }
      result.same += same;
      result.different += box.elements() - same;
    }
  }
  result.only_first = elements_of_slices(left_slices) - overlap;
  result.only_second = elements_of_slices(right_slices) - overlap;
  const std::size_t missing_left = left.box.elements() - elements_of_slices(left_slices);
  const std::size_t missing_right = right.box.elements() - elements_of_slices(right_slices);
  result.neither = missing_left - std::min(missing_left, result.only_second);
  if (!(left.extents() == right.extents())) {
    result.different += result.same;
    result.same = 0;
    result.neither = std::min(result.neither, missing_right);
  }
  const RowTurn none;
  const auto turn = [&none](const HeldWeight& held) { return held.turn.turns() ? held.turn : none; };
  result.turned = turn(left).group != turn(right).group || turn(left).shift != turn(right).shift;
  return result;
}

}  // namespace mtpcheck
