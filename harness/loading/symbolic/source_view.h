#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "harness/loading/plan/plan.h"
#include "harness/loading/symbolic/raised.h"

namespace mtpcheck {

/// A torch tensor read from a checkpoint, without its data: shape, and which element of the file's tensor each of its
/// elements is. The operations are torch's, named as torch names them; each throws Raised where torch raises.
class SourceView {
 public:
  struct Dim {
    std::size_t size = 0;
    SourceAxis axis;
  };

  /// The whole of `tensor`, the `index`-th header. Sub-byte types are one element a byte, as torch packs them.
  SourceView(const TensorView& tensor, std::uint32_t index);

  std::size_t ndim() const { return dims_.size(); }
  std::size_t numel() const;
  Shape shape() const;
  const std::vector<Dim>& dims() const { return dims_; }
  std::size_t base() const { return base_; }
  std::uint32_t tensor() const { return tensor_; }
  Dtype dtype() const { return conversion_.read_as; }
  const Conversion& conversion() const { return conversion_; }

  /// tensor.shape[dim], negative from the end.
  std::size_t size(std::ptrdiff_t dim) const;

  /// tensor[i]
  SourceView select(std::size_t i) const;
  SourceView narrow(std::size_t dim, std::size_t start, std::size_t length) const;
  /// tensor.chunk(2, dim); one chunk where the dimension is 1.
  std::vector<SourceView> halves(std::ptrdiff_t dim = -2) const;
  /// tensor.repeat_interleave(times, dim)
  SourceView repeat_interleave(std::size_t times, std::ptrdiff_t dim) const;
  /// tensor.reshape(1) of a scalar.
  SourceView reshape_1() const;
  /// tensor.reshape(()): one element of whatever shape.
  SourceView reshape_scalar() const;
  /// A view of one element with `ndim` dimensions of 1.
  SourceView reshape_ones(std::size_t ndim) const;
  /// tensor.view(dtype) of the same width: the bits taken for another type.
  SourceView view_as(Dtype dtype) const;
  /// The leading dimensions of 1 dropped, as an assignment to an index does.
  SourceView without_leading_ones() const;
  /// (tensor · scale).to(bfloat16), element by element; `conversion` names the scales.
  SourceView dequantised(const Conversion& conversion) const;

 private:
  SourceView() = default;
  std::size_t checked_dim(std::ptrdiff_t dim) const;

  std::vector<Dim> dims_;
  std::size_t base_ = 0;
  std::uint32_t tensor_ = 0;
  Conversion conversion_;
};

/// "torch.Size([2, 3])"
std::string torch_size(std::span<const std::size_t> shape);

/// Python's assert without a message.
void python_assert(bool holds, const std::string& message = {});

}  // namespace mtpcheck
