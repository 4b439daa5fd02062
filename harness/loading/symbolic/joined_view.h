#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "harness/loading/symbolic/source_view.h"
#include "harness/loading/symbolic/target_view.h"

namespace mtpcheck {

/// torch's promotion of two dtypes to a common one: raises where one of them is a float8 and the other differs.
void check_promotion(Dtype a, Dtype b);

/// Tensors read from a checkpoint and joined along one dimension, as torch.cat joins them; a piece may be zeros.
/// Operations as in SourceView.
class JoinedView {
 public:
  struct Piece {
    std::optional<SourceView> view;  ///< nullopt: zeros
    std::size_t size = 0;            ///< along the dimension that joins
  };

  /// One tensor as it is.
  JoinedView(const SourceView& whole);  // NOLINT(google-explicit-constructor): a tensor is a join of one

  /// torch.cat(views, dim=0). Raises where torch does.
  static JoinedView cat(const std::vector<SourceView>& views);

  /// [t[-rows:], t[:-rows]] of each of `groups` equal parts of dimension 0: their last rows come first.
  ///
  /// group_rows  rows of a part; a tensor of any other height raises, as torch's reshape to [groups, group_rows, …]
  /// does
  static JoinedView last_rows_first(const SourceView& view, std::size_t groups, std::size_t group_rows,
                                    std::size_t rows);

  std::size_t ndim() const { return shape_.size(); }
  std::size_t numel() const;
  const Shape& shape() const { return shape_; }
  std::size_t size(std::ptrdiff_t dim) const;
  /// Of the first piece; torch.cat gives pieces of different dtypes their common one, which keeps their numbers.
  Dtype dtype() const;
  const std::vector<Piece>& pieces() const { return pieces_; }

  JoinedView narrow(std::size_t dim, std::size_t start, std::size_t length) const;
  /// The part [start, start + length) of a dimension that may end before it: what is missing is zeros.
  JoinedView narrow_padded(std::size_t dim, std::size_t start, std::size_t length) const;
  /// tensor.reshape(1) of a scalar.
  JoinedView reshape_1() const;
  /// tensor[0]
  JoinedView first() const;
  /// The only piece. Raises where there are several: no engine does more than copy a join.
  const SourceView& whole() const;

  /// target.copy_(this): a write a piece. `tensor` is the tensor at hand, on whose account zeros are written.
  std::vector<Write> copy_into(const TargetView& target, std::uint32_t tensor) const;

 private:
  JoinedView(std::vector<Piece> pieces, std::size_t dim, Shape shape);

  std::vector<Piece> pieces_;
  std::size_t dim_ = 0;
  Shape shape_;
};

}  // namespace mtpcheck
