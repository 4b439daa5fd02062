#include "harness/loading/symbolic/joined_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>

namespace mtpcheck {
namespace {

bool is_float8(Dtype dtype) { return dtype == Dtype::f8_e4m3 || dtype == Dtype::f8_e5m2 || dtype == Dtype::f8_e8m0; }

// torch's name of a dtype in messages of its C++ half.
std::string_view scalar_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16:
      return "BFloat16";
    case Dtype::f16:
      return "Half";
    case Dtype::f32:
      return "Float";
    case Dtype::f64:
      return "Double";
    case Dtype::f8_e4m3:
      return "Float8_e4m3fn";
    case Dtype::f8_e5m2:
      return "Float8_e5m2";
    case Dtype::f8_e8m0:
      return "Float8_e8m0fnu";
    case Dtype::u8:
      return "Byte";
    default:
      return torch_name(dtype);
  }
}

void check_joins(const std::vector<SourceView>& views) {
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (views[i].ndim() == 0) {
      throw Raised{"RuntimeError", fmt::format("zero-dimensional tensor (at position {}) cannot be concatenated", i)};
    }
  }
  const SourceView& first = views.front();
  for (std::size_t i = 1; i < views.size(); ++i) {
    check_promotion(first.dtype(), views[i].dtype());
    if (views[i].ndim() != first.ndim()) {
      throw Raised{"RuntimeError", fmt::format("Tensors must have same number of dimensions: got {} and {}",
                                               first.ndim(), views[i].ndim())};
    }
    for (std::size_t dim = 1; dim < first.ndim(); ++dim) {
      const auto at = static_cast<std::ptrdiff_t>(dim);
      if (views[i].size(at) == first.size(at)) continue;
      throw Raised{"RuntimeError",
                   fmt::format("Sizes of tensors must match except in dimension 0. Expected size {} but got size {} "
                               "for tensor number {} in the list.",
                               first.size(at), views[i].size(at), i)};
    }
  }
}

}  // namespace

void check_promotion(Dtype a, Dtype b) {
  if (a == b || (!is_float8(a) && !is_float8(b))) return;
  throw Raised{"RuntimeError", fmt::format("Promotion for Float8 Types is not supported, attempted to promote {} and "
                                           "{}",
                                           scalar_type(b), scalar_type(a))};
}

JoinedView::JoinedView(const SourceView& whole) : shape_(whole.shape()) {
  pieces_.push_back({whole, shape_.empty() ? 1 : shape_[0]});
}

JoinedView::JoinedView(std::vector<Piece> pieces, std::size_t dim, Shape shape)
    : pieces_(std::move(pieces)), dim_(dim), shape_(std::move(shape)) {}

JoinedView JoinedView::cat(const std::vector<SourceView>& views) {
  check_joins(views);
  std::vector<Piece> pieces;
  Shape shape = views.front().shape();
  shape[0] = 0;
  for (const SourceView& view : views) {
    pieces.push_back({view, view.size(0)});
    shape[0] += view.size(0);
  }
  return {std::move(pieces), 0, std::move(shape)};
}

JoinedView JoinedView::last_rows_first(const SourceView& view, std::size_t groups, std::size_t group_rows,
                                       std::size_t rows) {
  const Shape shape = view.shape();
  Shape grouped{groups, group_rows};
  if (!shape.empty()) grouped.insert(grouped.end(), shape.begin() + 1, shape.end());
  const std::size_t wanted = std::reduce(grouped.begin(), grouped.end(), std::size_t{1}, std::multiplies<>());
  if (wanted != view.numel()) {
    throw Raised{"RuntimeError",
                 fmt::format("shape '[{}]' is invalid for input of size {}", fmt::join(grouped, ", "), view.numel())};
  }
  if (shape.empty()) return view;
  // Python's slices: -0 is 0, and more rows than there are is all of them.
  const std::size_t last = rows == 0 ? group_rows : std::min(rows, group_rows);
  std::vector<Piece> pieces;
  for (std::size_t group = 0; group < groups; ++group) {
    const std::size_t begin = group * group_rows;
    pieces.push_back({view.narrow(0, begin + group_rows - last, last), last});
    if (last < group_rows) pieces.push_back({view.narrow(0, begin, group_rows - last), group_rows - last});
  }
  return {std::move(pieces), 0, shape};
}

std::size_t JoinedView::numel() const {
  return std::reduce(shape_.begin(), shape_.end(), std::size_t{1}, std::multiplies<>());
}

std::size_t JoinedView::size(std::ptrdiff_t dim) const {
  const auto count = static_cast<std::ptrdiff_t>(shape_.size());
  if (dim < -count || dim >= count) throw Raised{"IndexError", "tuple index out of range"};
  return shape_[static_cast<std::size_t>(dim < 0 ? dim + count : dim)];
}

Dtype JoinedView::dtype() const { return pieces_.front().view ? pieces_.front().view->dtype() : Dtype::f32; }

const SourceView& JoinedView::whole() const {
  if (pieces_.size() != 1 || !pieces_.front().view) {
    throw Raised{"NotImplementedError", "a tensor that was joined from several is not taken apart again"};
  }
  return *pieces_.front().view;
}

JoinedView JoinedView::narrow(std::size_t dim, std::size_t start, std::size_t length) const {
  return whole().narrow(dim, start, length);
}

JoinedView JoinedView::narrow_padded(std::size_t dim, std::size_t start, std::size_t length) const {
  const std::size_t end = size(static_cast<std::ptrdiff_t>(dim));
  if (start + length <= end) return narrow(dim, start, length);
  Shape shape = shape_;
  shape[dim] = length;
  std::vector<Piece> pieces;
  const std::size_t there = end > start ? end - start : 0;
  if (there > 0) pieces.push_back({whole().narrow(dim, start, there), there});
  pieces.push_back({std::nullopt, length - there});
  return {std::move(pieces), dim, std::move(shape)};
}

JoinedView JoinedView::reshape_1() const { return whole().reshape_1(); }

JoinedView JoinedView::first() const { return whole().select(0); }

std::vector<Write> JoinedView::copy_into(const TargetView& target, std::uint32_t tensor) const {
  std::vector<Write> writes;
  const auto add = [&](const std::optional<Write>& write) {
    if (write) writes.push_back(*write);
  };
  if (pieces_.size() == 1 && pieces_.front().view) {
    add(target.copy_(*pieces_.front().view));
    return writes;
  }
  check_broadcast(target.shape(), shape_);
  const std::size_t dim = dim_ + target.ndim() - ndim();
  std::size_t at = 0;
  for (const Piece& piece : pieces_) {
    const TargetView part = target.narrow(dim, at, piece.size);
    add(piece.view ? part.copy_(*piece.view) : part.fill_(0, tensor));
    at += piece.size;
  }
  return writes;
}

}  // namespace mtpcheck
