#include "reference/model/weights.h"

#include <fmt/format.h>

#include "reference/tensor/error.h"

namespace mtpcheck {

Matrix rows_of(const Matrix& matrix, std::size_t first, std::size_t count) {
  if (first > matrix.rows || count > matrix.rows - first) {
    throw input_error(
        fmt::format("{}: rows {} to {} of a matrix of {} rows", matrix.name, first, first + count, matrix.rows));
  }
  Matrix slice = matrix;
  slice.rows = count;
  slice.data = matrix.data + first * matrix.cols * (bits_of(matrix.dtype) / 8);
  slice.scales.first_row += first;
  return slice;
}

}  // namespace mtpcheck
