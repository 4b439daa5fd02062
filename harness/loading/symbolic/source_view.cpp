#include "harness/loading/symbolic/source_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace mtpcheck {

std::string torch_size(std::span<const std::size_t> shape) {
  return fmt::format("torch.Size([{}])", fmt::join(shape, ", "));
}

void python_assert(bool holds, const std::string& message) {
  if (!holds) throw Raised{"AssertionError", message};
}

SourceView::SourceView(const TensorView& tensor, std::uint32_t index) : tensor_(index) {
  conversion_.read_as = tensor.dtype;
  Shape shape = tensor.shape;
  if (const std::size_t bits = bits_of(tensor.dtype); bits < 8 && !shape.empty())
    shape.back() = shape.back() * bits / 8;
  std::size_t stride = 1;
  dims_.resize(shape.size());
  for (std::size_t dim = shape.size(); dim-- > 0;) {
    dims_[dim] = {shape[dim], {0, stride, 1}};
    stride *= shape[dim];
  }
}

std::size_t SourceView::numel() const {
  std::size_t product = 1;
  for (const Dim& dim : dims_) product *= dim.size;
  return product;
}

Shape SourceView::shape() const {
  Shape shape;
  for (const Dim& dim : dims_) shape.push_back(dim.size);
  return shape;
}

std::size_t SourceView::size(std::ptrdiff_t dim) const {
  const auto count = static_cast<std::ptrdiff_t>(dims_.size());
  if (dim < -count || dim >= count) throw Raised{"IndexError", "tuple index out of range"};
  return dims_[static_cast<std::size_t>(dim < 0 ? dim + count : dim)].size;
}

std::size_t SourceView::checked_dim(std::ptrdiff_t dim) const {
  const auto count = static_cast<std::ptrdiff_t>(dims_.size());
  const auto range = count == 0 ? 1 : count;
  if (dim < -range || dim >= range) {
    throw Raised{"IndexError", fmt::format("Dimension out of range (expected to be in range of [{}, {}], but got {})",
                                           -range, range - 1, dim)};
  }
  return static_cast<std::size_t>(dim < 0 ? dim + range : dim);
}

SourceView SourceView::select(std::size_t i) const {
  if (dims_.empty()) {
    throw Raised{"IndexError",
                 "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to "
                 "convert a 0-dim tensor to a number"};
  }
  if (i >= dims_[0].size) {
    throw Raised{"IndexError", fmt::format("index {} is out of bounds for dimension 0 with size {}", i, dims_[0].size)};
  }
  SourceView result = *this;
  result.base_ += dims_[0].axis.offset(i);
  result.dims_.erase(result.dims_.begin());
  return result;
}

SourceView SourceView::narrow(std::size_t dim, std::size_t start, std::size_t length) const {
  if (dims_.empty()) throw Raised{"RuntimeError", "narrow() cannot be applied to a 0-dim tensor."};
  const std::size_t at = checked_dim(static_cast<std::ptrdiff_t>(dim));
  const std::size_t size = dims_[at].size;
  if (start > size) {
    throw Raised{"IndexError", fmt::format("start out of range (expected to be in range of [-{}, {}], but got {})",
                                           size, size, start)};
  }
  if (length > size - start) {
    throw Raised{"RuntimeError",
                 fmt::format("start ({}) + length ({}) exceeds dimension size ({}).", start, length, size)};
  }
  SourceView result = *this;
  result.dims_[at].axis.start += start;
  result.dims_[at].size = length;
  return result;
}

std::vector<SourceView> SourceView::halves(std::ptrdiff_t along) const {
  if (dims_.empty()) throw Raised{"RuntimeError", "chunk expects at least a 1-dimensional tensor"};
  const std::size_t dim = checked_dim(along);
  const std::size_t size = dims_[dim].size;
  const std::size_t first = (size + 1) / 2;
  std::vector<SourceView> chunks{narrow(dim, 0, first)};
  if (size != 1) chunks.push_back(narrow(dim, first, size - first));
  return chunks;
}

SourceView SourceView::repeat_interleave(std::size_t times, std::ptrdiff_t dim) const {
  const std::size_t at = checked_dim(dim);
  SourceView result = *this;
  if (dims_.empty()) result.dims_.resize(1, {1, {0, 0, 1}});
  Dim& walked = result.dims_[at];
  walked.size *= times;
  walked.axis.start *= times;
  walked.axis.repeat *= times;
  return result;
}

SourceView SourceView::reshape_1() const { return reshape_ones(1); }

SourceView SourceView::reshape_scalar() const {
  if (numel() != 1) throw Raised{"RuntimeError", fmt::format("shape '[]' is invalid for input of size {}", numel())};
  return reshape_ones(0);
}

SourceView SourceView::reshape_ones(std::size_t ndim) const {
  SourceView result = *this;
  for (const Dim& dim : dims_) result.base_ += dim.axis.offset(0);
  result.dims_.assign(ndim, {1, {0, 0, 1}});
  return result;
}

SourceView SourceView::view_as(Dtype dtype) const {
  SourceView result = *this;
  result.conversion_.read_as = dtype;
  return result;
}

SourceView SourceView::without_leading_ones() const {
  SourceView result = *this;
  while (!result.dims_.empty() && result.dims_[0].size == 1) result = result.select(0);
  return result;
}

SourceView SourceView::dequantised(const Conversion& conversion) const {
  SourceView result = *this;
  result.conversion_ = conversion;
  return result;
}

}  // namespace mtpcheck
