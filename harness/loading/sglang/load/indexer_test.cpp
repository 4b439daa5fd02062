#include "harness/loading/sglang/load/indexer.h"

#include <gtest/gtest.h>

namespace mtpcheck::sglang {
namespace {

SourceView source_of(Shape shape, Dtype dtype, std::uint32_t tensor) {
  return {TensorView{"t", dtype, std::move(shape), {}, "", 0}, tensor};
}

// The cell of the scales' file that a row of the parameter is multiplied by.
std::size_t cell_of(const std::vector<Write>& writes, std::size_t row, std::size_t cols) {
  for (const Write& write : writes) {
    if (row < write.box.rows.begin || row >= write.box.rows.end) continue;
    const Conversion& how = write.conversion;
    const std::size_t element = write.source_element(0, row - write.box.rows.begin, 0);
    return how.first_cell + element / cols / how.group_rows * how.grid_cols;
  }
  return 999;
}

class Dequantised : public testing::Test {
 protected:
  // Four rows of eight, the last one first, with scales [rows, 2] of blocks of `block_rows` × 4.
  std::vector<Write> writes(std::size_t scale_rows, std::size_t block_rows, std::size_t turned_scales) {
    const JoinedView weight = JoinedView::last_rows_first(source_of({4, 8}, Dtype::f8_e4m3, 0), 1, 4, 1);
    const JoinedView scale =
        JoinedView::last_rows_first(source_of({scale_rows, 2}, Dtype::u8, 1), 1, scale_rows, turned_scales);
    return copy_dequantised(TargetView(parameter_, 0), weight, scale, block_rows, 4);
  }

  Parameter parameter_{.name = "p", .shape = {4, 8}, .extents = {1, 4, 8}};
};

TEST_F(Dequantised, EachRowKeepsTheScaleOfItsOwn) {
  const auto done = writes(4, 1, 1);
  EXPECT_EQ(cell_of(done, 0, 8), 6U);  // row 3 of the file, cell 3 · 2
  EXPECT_EQ(cell_of(done, 1, 8), 0U);
  EXPECT_EQ(cell_of(done, 3, 8), 4U);
  EXPECT_EQ(done.front().conversion.scale_read_as, Dtype::u8);
  EXPECT_EQ(done.front().conversion.group_cols, 4U);
}

TEST_F(Dequantised, BlocksFollowTheTurnedRows) {
  // Rows 3 0 1 2 against scale rows 1 0, two rows each: rows 3 and 0 have the file's cell row 1, rows 1 and 2 row 0.
  const auto done = writes(2, 2, 1);
  EXPECT_EQ(cell_of(done, 0, 8), 2U);
  EXPECT_EQ(cell_of(done, 1, 8), 2U);
  EXPECT_EQ(cell_of(done, 2, 8), 0U);
  EXPECT_EQ(cell_of(done, 3, 8), 0U);
}

TEST_F(Dequantised, ScalesThatDoNotFitRaise) {
  EXPECT_THROW(writes(2, 1, 1), Raised);  // two rows for four
  EXPECT_NO_THROW(writes(1, 1, 0));       // one for all
  const JoinedView weight = source_of({4, 8}, Dtype::f8_e4m3, 0);
  const JoinedView exponents = source_of({4, 2}, Dtype::f8_e8m0, 1);
  EXPECT_THROW(copy_dequantised(TargetView(parameter_, 0), weight, exponents, 1, 4), Raised);
}

}  // namespace
}  // namespace mtpcheck::sglang
