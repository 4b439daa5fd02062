#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/loading/sglang/load/indexer.h"

namespace mtpcheck::sglang {
namespace {

// Rows of a join in the file's own numbers: row i of the join is row rows[i] of its tensor.
std::vector<std::size_t> file_rows(const JoinedView& joined) {
  std::vector<std::size_t> rows;
  for (const JoinedView::Piece& piece : joined.pieces()) {
    const SourceAxis& axis = piece.view->dims()[0].axis;
    for (std::size_t row = 0; row < piece.size; ++row) rows.push_back(axis.start + row);
  }
  return rows;
}

// How one dimension of the repeated and cut scales meets the weight's: a block of entries each, or one for all.
std::size_t entries_a_scale(std::size_t scales, std::size_t block, std::size_t size) {
  const std::size_t repeated = std::min(scales * block, size);
  if (repeated == size) return block;
  if (repeated == 1) return size;
  throw Raised{"RuntimeError", fmt::format("The size of tensor a ({}) must match the size of tensor b ({}) at "
                                           "non-singleton dimension 0",
                                           size, repeated)};
}

}  // namespace

std::vector<Write> copy_dequantised(const TargetView& target, const JoinedView& weight, const JoinedView& scale,
                                    std::size_t block_rows, std::size_t block_cols) {
  if (weight.ndim() != 2) {
    throw Raised{"ValueError", fmt::format("not enough values to unpack (expected at least 2, got {})", weight.ndim())};
  }
  if (scale.ndim() != 2) {
    throw Raised{"IndexError", "Dimension out of range (expected to be in range of [-1, 0], but got -2)"};
  }
  check_promotion(scale.dtype(), Dtype::f32);
  const std::size_t rows_each = entries_a_scale(scale.size(0), block_rows, weight.size(0));
  const std::size_t cols_each = entries_a_scale(scale.size(1), block_cols, weight.size(1));
  check_broadcast(target.shape(), weight.shape());
  const std::vector<std::size_t> weight_rows = file_rows(weight);
  const std::vector<std::size_t> scale_rows = file_rows(scale);
  const std::uint32_t scale_tensor = scale.pieces().front().view->tensor();
  std::vector<Write> writes;
  std::size_t at = 0;
  for (const JoinedView::Piece& piece : weight.pieces()) {
    // Rows that share a scale, or that each have the scale of their own number, are copied in one go.
    for (std::size_t begin = 0; begin < piece.size;) {
      const auto scale_row = [&](std::size_t row) { return scale_rows[(at + row) / rows_each]; };
      const auto own = [&](std::size_t row) { return scale_row(row) == weight_rows[at + row] / rows_each; };
      std::size_t end = begin + 1;
      while (end < piece.size && own(end) == own(begin) && (own(begin) || scale_row(end) == scale_row(begin))) ++end;
      Conversion conversion;
      conversion.kind = Conversion::Kind::dequantise;
      conversion.read_as = weight.dtype();
      conversion.scale_tensor = scale_tensor;
      conversion.scale_read_as = scale.dtype();
      conversion.grid_cols = scale.size(1);
      conversion.group_cols = cols_each;
      conversion.group_rows = own(begin) ? rows_each : weight.size(0);
      conversion.first_cell = own(begin) ? 0 : scale_row(begin) * scale.size(1);
      const auto write = target.narrow(0, at + begin, end - begin)
                             .copy_(piece.view->narrow(0, begin, end - begin).dequantised(conversion));
      if (write) writes.push_back(*write);
      begin = end;
    }
    at += piece.size;
  }
  return writes;
}

}  // namespace mtpcheck::sglang
