// The recorded answers are torch 2.14's.
#include "harness/loading/symbolic/joined_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtpcheck {
namespace {

SourceView matrix(Shape shape, std::uint32_t tensor = 0, Dtype dtype = Dtype::bf16) {
  return {TensorView{"t", dtype, std::move(shape), {}, "", 0}, tensor};
}

TargetView target(std::size_t rows, std::size_t cols) {
  static std::vector<Parameter> kept;
  kept.push_back({.name = "p", .shape = {rows, cols}, .extents = {1, rows, cols}});
  return {kept.back(), 0};
}

template <class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Raised& exception) {
    return exception.type + ": " + exception.message;
  }
  return "nothing";
}

// Which row of its tensor each row of the target is: tensor · 100 + row, 999 for zeros.
std::vector<std::size_t> rows_written(const std::vector<Write>& writes, std::size_t rows, std::size_t cols) {
  std::vector<std::size_t> result(rows, 0);
  for (const Write& write : writes) {
    for (std::size_t row = 0; row < write.box.rows.size(); ++row) {
      const bool zero = write.conversion.kind == Conversion::Kind::fill;
      result[write.box.rows.begin + row] = zero ? 999 : write.tensor * 100 + write.source_element(0, row, 0) / cols;
    }
  }
  return result;
}

TEST(JoinedView, CatPutsTensorsBelowOneAnother) {
  const JoinedView both = JoinedView::cat({matrix({2, 3}, 1), matrix({1, 3}, 2)});
  EXPECT_EQ(both.shape(), (Shape{3, 3}));
  EXPECT_THAT(rows_written(both.copy_into(target(3, 3), 1), 3, 3), testing::ElementsAre(100, 101, 200));
  EXPECT_EQ(both.copy_into(target(3, 3), 1).size(), 2U);
}

TEST(JoinedView, CatRaisesAsTorchDoes) {
  EXPECT_EQ(
      message_of([] {
        JoinedView::cat({matrix({2, 3}), matrix({2, 4})});
      }),
      "RuntimeError: Sizes of tensors must match except in dimension 0. Expected size 3 but got size 4 for tensor "
      "number 1 in the list.");
  EXPECT_EQ(message_of([] {
              JoinedView::cat({matrix({2, 3}), matrix({2})});
            }),
            "RuntimeError: Tensors must have same number of dimensions: got 2 and 1");
  EXPECT_EQ(message_of([] {
              JoinedView::cat({matrix({}), matrix({2})});
            }),
            "RuntimeError: zero-dimensional tensor (at position 0) cannot be concatenated");
  EXPECT_EQ(message_of([] {
              JoinedView::cat({matrix({2, 3}, 0, Dtype::f8_e4m3), matrix({2, 3})});
            }),
            "RuntimeError: Promotion for Float8 Types is not supported, attempted to promote BFloat16 and "
            "Float8_e4m3fn");
}

TEST(JoinedView, TheLastRowsOfEachGroupComeFirst) {
  const JoinedView turned = JoinedView::last_rows_first(matrix({6, 2}), 2, 3, 1);
  EXPECT_THAT(rows_written(turned.copy_into(target(6, 2), 0), 6, 2), testing::ElementsAre(2, 0, 1, 5, 3, 4));
  // No rows, or more than a group has: as they are.
  for (const std::size_t rows : {0U, 3U, 9U}) {
    const JoinedView same = JoinedView::last_rows_first(matrix({6, 2}), 2, 3, rows);
    EXPECT_THAT(rows_written(same.copy_into(target(6, 2), 0), 6, 2), testing::ElementsAre(0, 1, 2, 3, 4, 5)) << rows;
  }
}

TEST(JoinedView, GroupsOfAnotherHeightRaise) {
  EXPECT_EQ(message_of([] {
              JoinedView::last_rows_first(matrix({1, 1}), 2, 64, 8);
            }),
            "RuntimeError: shape '[2, 64, 1]' is invalid for input of size 1");
  EXPECT_EQ(message_of([] { JoinedView::last_rows_first(matrix({}), 1, 32, 8); }),
            "RuntimeError: shape '[1, 32]' is invalid for input of size 1");
}

TEST(JoinedView, WhatATensorLacksIsZeros) {
  const JoinedView whole = matrix({3, 2});
  EXPECT_THAT(rows_written(whole.narrow_padded(0, 2, 2).copy_into(target(2, 2), 0), 2, 2),
              testing::ElementsAre(2, 999));
  EXPECT_THAT(rows_written(whole.narrow_padded(0, 4, 2).copy_into(target(2, 2), 0), 2, 2),
              testing::ElementsAre(999, 999));
  EXPECT_THAT(rows_written(whole.narrow_padded(0, 0, 2).copy_into(target(2, 2), 0), 2, 2), testing::ElementsAre(0, 1));
}

TEST(JoinedView, AJoinIsNotTakenApartAgain) {
  const JoinedView both = JoinedView::cat({matrix({2, 3}), matrix({1, 3})});
  EXPECT_THROW(both.narrow(0, 0, 1), Raised);
  EXPECT_THROW(both.whole(), Raised);
}

TEST(JoinedView, ACopyIntoAnotherShapeRaises) {
  const JoinedView both = JoinedView::cat({matrix({2, 3}), matrix({1, 3})});
  EXPECT_EQ(message_of([&] { both.copy_into(target(4, 3), 0); }),
            "RuntimeError: The size of tensor a (4) must match the size of tensor b (3) at non-singleton dimension 0");
}

}  // namespace
}  // namespace mtpcheck
