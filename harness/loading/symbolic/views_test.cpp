// The recorded answers are torch 2.15's.
#include <gtest/gtest.h>

#include "harness/loading/symbolic/source_view.h"
#include "harness/loading/symbolic/target_view.h"

namespace mtpcheck {
namespace {

SourceView source(Shape shape, Dtype dtype = Dtype::f32) {
  return {TensorView{"t", dtype, std::move(shape), {}, "", 0}, 7};
}

Parameter parameter(Shape shape, Extents extents) {
  return {.name = "p", .shape = std::move(shape), .extents = extents};
}

template <class Call>
std::string raised(const Call& call) {
  try {
    call();
  } catch (const Raised& exception) {
    return exception.type + ": " + exception.message;
  }
  return "nothing";
}

TEST(SourceView, NarrowRaisesAsTorchDoes) {
  EXPECT_EQ(raised([] { source({2}).narrow(0, 4, 2); }),
            "IndexError: start out of range (expected to be in range of [-2, 2], but got 4)");
  EXPECT_EQ(raised([] { source({2}).narrow(0, 1, 2); }),
            "RuntimeError: start (1) + length (2) exceeds dimension size (2).");
  EXPECT_EQ(raised([] { source({2}).narrow(1, 0, 1); }),
            "IndexError: Dimension out of range (expected to be in range of [-1, 0], but got 1)");
  EXPECT_EQ(raised([] { source({}).narrow(0, 0, 1); }), "RuntimeError: narrow() cannot be applied to a 0-dim tensor.");
  EXPECT_EQ(source({4}).narrow(0, 4, 0).numel(), 0U);
}

TEST(SourceView, HalvesRoundUpAndMayBeOne) {
  EXPECT_EQ(source({3, 2}).halves()[0].shape(), (Shape{2, 2}));
  EXPECT_EQ(source({3, 2}).halves()[1].shape(), (Shape{1, 2}));
  EXPECT_EQ(source({1, 2}).halves().size(), 1U);
  EXPECT_EQ(raised([] { source({2}).halves(); }),
            "IndexError: Dimension out of range (expected to be in range of [-1, 0], but got -2)");
  EXPECT_EQ(raised([] { source({}).halves(); }), "RuntimeError: chunk expects at least a 1-dimensional tensor");
}

TEST(SourceView, OneElementReshapesAndMoreDoNot) {
  EXPECT_EQ(source({1, 1}).reshape_scalar().ndim(), 0U);
  EXPECT_EQ(raised([] { source({2}).reshape_scalar(); }), "RuntimeError: shape '[]' is invalid for input of size 2");
}

TEST(SourceView, RepeatedThenCutReadsTheRightCells) {
  // [4, 2] repeated to [8, 2]; rows 3 to 6 of it are rows 1, 2, 2 of the tensor.
  const SourceView view = source({4, 2}).repeat_interleave(2, -2).narrow(0, 3, 3);
  const auto write = TargetView(parameter({3, 2}, {1, 3, 2}), 0).copy_(view);
  ASSERT_TRUE(write);
  EXPECT_EQ(write->source_element(0, 0, 0), 2U);
  EXPECT_EQ(write->source_element(0, 1, 0), 4U);
  EXPECT_EQ(write->source_element(0, 2, 1), 5U);
}

TEST(TargetView, CopyBroadcastsAndRaisesAsTorchDoes) {
  const auto into = [](Shape shape, Extents extents) { return TargetView(parameter(std::move(shape), extents), 0); };
  const auto broadcast = into({2, 3}, {1, 2, 3}).copy_(source({3}));
  ASSERT_TRUE(broadcast);
  EXPECT_EQ(broadcast->source_element(0, 1, 2), 2U);
  EXPECT_EQ(raised([&] {
              into({128, 1}, {1, 128, 1}).copy_(source({128, 128}));
            }),
            "RuntimeError: output with shape [128, 1] doesn't match the broadcast shape [128, 128]");
  EXPECT_EQ(raised([&] {
              into({2, 3}, {1, 2, 3}).copy_(source({2, 4}));
            }),
            "RuntimeError: The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1");
  EXPECT_EQ(raised([&] { into({}, {}).copy_(source({1})); }),
            "RuntimeError: output with shape [] doesn't match the broadcast shape [1]");
  EXPECT_FALSE(into({0, 3}, {1, 0, 3}).copy_(source({0, 3})));
}

TEST(TargetView, FourDimensionsOfTwoThatCount) {
  const TargetView grid(parameter({5, 1, 3, 1}, {1, 5, 3}), 0);
  const auto write = grid.narrow(0, 2, 2).copy_(source({5, 1, 3, 1}).narrow(0, 2, 2));
  ASSERT_TRUE(write);
  EXPECT_EQ(write->box, (Box{{0, 1}, {2, 4}, {0, 3}}));
  EXPECT_EQ(write->source_element(0, 0, 0), 6U);
  EXPECT_EQ(write->source_element(0, 1, 2), 11U);
}

TEST(TargetView, OneExpertsRow) {
  const TargetView scales(parameter({4, 2}, {4, 2, 1}), 3);
  const auto write = scales.select(2).select(1).copy_(source({1}).reshape_scalar());
  ASSERT_TRUE(write);
  EXPECT_EQ(write->box, (Box{{2, 3}, {1, 2}, {0, 1}}));
  EXPECT_EQ(write->parameter, 3U);
  EXPECT_EQ(write->tensor, 7U);
}

}  // namespace
}  // namespace mtpcheck
