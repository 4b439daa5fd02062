#include "harness/loading/symbolic/target_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace mtpcheck {
namespace {

Interval& axis_of(Box& box, std::size_t axis) { return axis == 0 ? box.experts : axis == 1 ? box.rows : box.cols; }

std::size_t extent_of(const Extents& extents, std::size_t axis) {
  return axis == 0 ? extents.experts : axis == 1 ? extents.rows : extents.cols;
}

// The shape of torch's result when two shapes meet; raises where they do not fit.
Shape broadcast(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::size_t left = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::size_t right = i < b.size() ? b[b.size() - 1 - i] : 1;
    const std::size_t dim = result.size() - 1 - i;
    if (left != right && left != 1 && right != 1) {
      throw Raised{"RuntimeError", fmt::format("The size of tensor a ({}) must match the size of tensor b ({}) at "
                                               "non-singleton dimension {}",
                                               left, right, dim)};
    }
    result[dim] = left == 1 ? right : left;
  }
  return result;
}

}  // namespace

void check_broadcast(const Shape& to, const Shape& from) {
  if (const Shape met = broadcast(to, from); met != to) {
    throw Raised{"RuntimeError", fmt::format("output with shape [{}] doesn't match the broadcast shape [{}]",
                                             fmt::join(to, ", "), fmt::join(met, ", "))};
  }
}

// Each dimension of the shape is one axis, in order: a dimension of 1 that meets a longer axis has none, another one
// passes over the axes of 1 that the shape leaves out.
TargetView::TargetView(const Parameter& parameter, std::uint32_t index) : parameter_(index) {
  fixed_ = whole(parameter.extents);
  std::size_t axis = 0;
  for (const std::size_t size : parameter.shape) {
    while (size != 1 && axis < 3 && extent_of(parameter.extents, axis) == 1) ++axis;
    if (axis < 3 && extent_of(parameter.extents, axis) == size) {
      dims_.push_back({axis, {0, size}});
      ++axis;
    } else {
      dims_.push_back({std::nullopt, {0, size}});
    }
  }
}

std::size_t TargetView::numel() const { return box().elements(); }

Shape TargetView::shape() const {
  Shape shape;
  for (const Dim& dim : dims_) shape.push_back(dim.range.size());
  return shape;
}

std::size_t TargetView::size(std::ptrdiff_t dim) const {
  const auto count = static_cast<std::ptrdiff_t>(dims_.size());
  if (dim < -count || dim >= count) throw Raised{"IndexError", "tuple index out of range"};
  return dims_[static_cast<std::size_t>(dim < 0 ? dim + count : dim)].range.size();
}

TargetView TargetView::select(std::size_t i) const {
  TargetView result = *this;
  const Dim& dim = dims_[0];
  if (i >= dim.range.size()) {
    throw Raised{"IndexError",
                 fmt::format("index {} is out of bounds for dimension 0 with size {}", i, dim.range.size())};
  }
  if (dim.axis) axis_of(result.fixed_, *dim.axis) = {dim.range.begin + i, dim.range.begin + i + 1};
  result.dims_.erase(result.dims_.begin());
  return result;
}

TargetView TargetView::narrow(std::size_t dim, std::size_t start, std::size_t length) const {
  if (dim >= dims_.size()) {
    throw Raised{"IndexError", fmt::format("Dimension out of range (expected to be in range of [-{}, {}], but got {})",
                                           dims_.size(), dims_.size() - 1, dim)};
  }
  TargetView result = *this;
  Interval& range = result.dims_[dim].range;
  if (start > range.size()) {
    throw Raised{"IndexError", fmt::format("start out of range (expected to be in range of [-{}, {}], but got {})",
                                           range.size(), range.size(), start)};
  }
  if (length > range.size() - start) {
    throw Raised{"RuntimeError",
                 fmt::format("start ({}) + length ({}) exceeds dimension size ({}).", start, length, range.size())};
  }
  range = {range.begin + start, range.begin + start + length};
  return result;
}

TargetView TargetView::first(std::size_t end) const { return narrow(0, 0, std::min(end, size(0))); }

TargetView TargetView::from(std::size_t begin) const {
  const std::size_t start = std::min(begin, size(0));
  return narrow(0, start, size(0) - start);
}

Box TargetView::box() const {
  Box result = fixed_;
  for (const Dim& dim : dims_) {
    if (dim.axis) axis_of(result, *dim.axis) = dim.range;
  }
  return result;
}

std::optional<Write> TargetView::copy_(const SourceView& source) const {
  const Shape to = shape();
  check_broadcast(to, source.shape());
  if (bits_of(source.dtype()) < 8) {
    throw Raised{"NotImplementedError", fmt::format("\"copy_\" not implemented for '{}'", torch_name(source.dtype()))};
  }
  Write write;
  write.parameter = parameter_;
  write.tensor = source.tensor();
  write.box = box();
  write.base = source.base();
  write.conversion = source.conversion();
  const std::size_t missing = to.size() - source.ndim();  // leading dimensions that the source does not have
  for (std::size_t i = missing; i < to.size(); ++i) {
    const SourceView::Dim& from = source.dims()[i - missing];
    SourceAxis axis = from.axis;
    if (from.size == 1) {
      // Read once and again: the offset goes into the base and the axis stands still.
      write.base += axis.offset(0);
      axis = {0, 0, 1};
    }
    if (dims_[i].axis) {
      write.axes[*dims_[i].axis] = axis;
    } else {
      write.base += axis.offset(0);
    }
  }
  if (write.box.empty()) return std::nullopt;
  return write;
}

std::optional<Write> TargetView::fill_(float value, std::uint32_t tensor) const {
  Write write;
  write.parameter = parameter_;
  write.tensor = tensor;
  write.box = box();
  write.conversion.kind = Conversion::Kind::fill;
  write.conversion.constant = value;
  if (write.box.empty()) return std::nullopt;
  return write;
}

}  // namespace mtpcheck
