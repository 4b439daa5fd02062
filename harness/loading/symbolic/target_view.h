#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "harness/loading/symbolic/source_view.h"

namespace mtpcheck {

/// Whether `from` broadcasts into `to`; raises where torch's copy_ does.
void check_broadcast(const Shape& to, const Shape& from);

/// A view of a parameter's data into which an engine copies. Operations as in SourceView.
class TargetView {
 public:
  /// The whole parameter.
  TargetView(const Parameter& parameter, std::uint32_t index);

  std::size_t ndim() const { return dims_.size(); }
  std::size_t numel() const;
  Shape shape() const;
  std::size_t size(std::ptrdiff_t dim) const;

  TargetView select(std::size_t i) const;
  TargetView narrow(std::size_t dim, std::size_t start, std::size_t length) const;
  /// tensor[:end] and tensor[begin:], which clip instead of raising.
  TargetView first(std::size_t end) const;
  TargetView from(std::size_t begin) const;

  /// tensor.copy_(source): broadcasts the source. nullopt where there is nothing to copy.
  std::optional<Write> copy_(const SourceView& source) const;
  /// tensor.fill_(value), on account of the tensor at hand.
  std::optional<Write> fill_(float value, std::uint32_t tensor) const;

 private:
  struct Dim {
    std::optional<std::size_t> axis;  ///< of the box; none for a dimension of 1 that the three axes leave out
    Interval range;
  };

  Box box() const;

  std::vector<Dim> dims_;
  Box fixed_;  ///< the axes that no dimension walks
  std::uint32_t parameter_ = 0;
};

}  // namespace mtpcheck
