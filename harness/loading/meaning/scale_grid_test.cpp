#include "harness/loading/meaning/scale_grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtpcheck {
namespace {

using ::testing::HasSubstr;

TensorView scale(Shape shape, Dtype dtype = Dtype::f32) { return {"s", dtype, std::move(shape), {}, "f", 0}; }

WeightPlace alone(std::size_t rows, std::size_t cols) { return {std::nullopt, 0, {rows}, 0, cols}; }

GridDecision decided(const WeightPlace& place, const TensorView& view, DeclaredQuantisation declared = {}) {
  const auto decision = decide_grid(place, Dtype::f8_e4m3, view, declared);
  if (const auto* const fault = std::get_if<std::string>(&decision)) {
    ADD_FAILURE() << *fault;
    return {};
  }
  return std::get<GridDecision>(decision);
}

std::string fault(const WeightPlace& place, const TensorView& view, const DeclaredQuantisation& declared = {}) {
  const auto decision = decide_grid(place, Dtype::f8_e4m3, view, declared);
  const auto* const text = std::get_if<std::string>(&decision);
  return text == nullptr ? "accepted" : *text;
}

// The cell of element (r, c), by the definition of ScaleGrid.
std::size_t cell(const ScaleGrid& grid, std::size_t r, std::size_t c) {
  return grid.first_cell + (grid.first_row + r) / grid.block_rows * grid.stride + c / grid.block_cols;
}

TEST(ScaleGrid, BlocksRoundUp) {  // FAULTS Q06
  const GridDecision decision = decided(alone(300, 200), scale({3, 2}));
  EXPECT_EQ(decision.layout, QuantLayout::block);
  EXPECT_EQ(cell(decision.grid, 0, 0), 0U);
  EXPECT_EQ(cell(decision.grid, 127, 127), 0U);
  EXPECT_EQ(cell(decision.grid, 128, 128), 3U);
  EXPECT_EQ(cell(decision.grid, 299, 199), 5U);
}

TEST(ScaleGrid, TheConfigsBlockSizeComesFirst) {
  EXPECT_EQ(decided(alone(256, 256), scale({4, 4}), {{}, BlockSize{64, 64}}).grid.block_rows, 64U);
  EXPECT_EQ(decided(alone(256, 256), scale({2, 2}), {{}, BlockSize{64, 64}}).grid.block_rows, 128U);
}

TEST(ScaleGrid, LayoutsComeFromShapes) {  // FAULTS Q05
  EXPECT_EQ(decided(alone(256, 128), scale({256, 4}, Dtype::u8)).layout, QuantLayout::mx);
  EXPECT_EQ(decided(alone(256, 48), scale({256, 2}, Dtype::u8)).layout, QuantLayout::mx);
  EXPECT_EQ(decided(alone(256, 128), scale({256, 1})).layout, QuantLayout::per_channel);
  EXPECT_EQ(decided(alone(256, 128), scale({256})).layout, QuantLayout::per_channel);
  EXPECT_EQ(decided(alone(256, 128), scale({})).layout, QuantLayout::per_tensor);
  EXPECT_EQ(decided(alone(256, 128), scale({1})).layout, QuantLayout::per_tensor);
  EXPECT_EQ(decided(alone(256, 128), scale({2, 1})).layout, QuantLayout::block);
}

TEST(ScaleGrid, ImpossibleShapesAreRefused) {  // FAULTS Q05, Q12
  EXPECT_THAT(fault(alone(256, 512), scale({4, 2})), HasSubstr("would fit transposed"));
  EXPECT_THAT(fault(alone(256, 128), scale({4, 256}, Dtype::u8)), HasSubstr("would fit transposed"));
  EXPECT_THAT(fault(alone(256, 128), scale({256, 8}, Dtype::u8)), HasSubstr("one scale for 16 columns"));
  EXPECT_THAT(fault(alone(256, 128), scale({255})), HasSubstr("[255] fits no layout of a weight of [256, 128]"));
  EXPECT_THAT(fault(alone(256, 128), scale({256, 1}, Dtype::i32)), HasSubstr("packed four to a word"));  // Q04
  EXPECT_THAT(fault(alone(256, 128), scale({256, 1}, Dtype::f64)), HasSubstr("float64"));
}

TEST(ScaleGrid, AScaleWithFewerCellsThanTheDeclaredLayoutIsNone) {
  const DeclaredQuantisation channel{QuantLayout::per_channel, {}};
  EXPECT_THAT(fault(alone(256, 128), scale({1}), channel),
              HasSubstr("per tensor by its shape, where the config says per channel and that has 256 cells"));
  EXPECT_EQ(decided(alone(256, 128), scale({256}), channel).layout, QuantLayout::per_channel);
  const DeclaredQuantisation mx{QuantLayout::mx, {}};
  EXPECT_THAT(fault(alone(256, 128), scale({256, 1}), mx), HasSubstr("per channel by its shape"));
  EXPECT_EQ(decided(alone(256, 32), scale({256, 1}), mx).layout, QuantLayout::per_channel) << "the same cells";
  const DeclaredQuantisation block{QuantLayout::block, BlockSize{128, 128}};
  EXPECT_THAT(fault(alone(256, 128), scale({}), block), HasSubstr("per tensor by its shape"));
  EXPECT_NE(decided(alone(100, 128), scale({1}), block).layout, QuantLayout::none);
  EXPECT_EQ(decided({std::nullopt, 0, {192, 192}, 1, 128}, scale({3, 1}), block).layout, QuantLayout::block);
}

TEST(ScaleGrid, Uint8HoldsExponents) {  // FAULTS Q03
  EXPECT_EQ(decided(alone(256, 128), scale({2, 1}, Dtype::u8)).grid.read_as, Dtype::f8_e8m0);
  EXPECT_EQ(decided(alone(256, 128), scale({2, 1}, Dtype::bf16)).grid.read_as, Dtype::bf16);
}

TEST(ScaleGrid, ExpertsHaveTheirSlab) {
  const WeightPlace up{2, 8, {256, 256}, 1, 128};
  GridDecision decision = decided(up, scale({8, 4, 1}));
  EXPECT_EQ(decision.layout, QuantLayout::block);
  EXPECT_EQ(cell(decision.grid, 0, 0), 2 * 4 + 2U);
  decision = decided(up, scale({8, 512, 4}, Dtype::u8));
  EXPECT_EQ(decision.layout, QuantLayout::mx);
  EXPECT_EQ(cell(decision.grid, 3, 40), (2 * 512 + 256 + 3) * 4 + 1U);
  decision = decided(up, scale({8, 512, 1}));
  EXPECT_EQ(cell(decision.grid, 3, 40), 2 * 512 + 256 + 3U);
  for (const Shape& pairs : {Shape{8, 2}, Shape{8, 2, 1}}) {
    decision = decided(up, scale(pairs));
    EXPECT_EQ(decision.layout, QuantLayout::per_tensor);
    EXPECT_EQ(cell(decision.grid, 255, 127), 5U);
  }
  EXPECT_EQ(cell(decided(up, scale({8})).grid, 255, 127), 2U);
  EXPECT_EQ(cell(decided(up, scale({})).grid, 255, 127), 0U);
  EXPECT_THAT(fault(up, scale({7, 4, 1})), HasSubstr("fits no layout"));
}

TEST(ScaleGrid, BlocksOfFusedPartsAreCountedOverEachOrOverAll) {  // FAULTS Q07
  const WeightPlace up{std::nullopt, 0, {192, 192}, 1, 128};
  const GridDecision each = decided(up, scale({4, 1}));
  EXPECT_EQ(cell(each.grid, 0, 0), 2U);
  EXPECT_EQ(cell(each.grid, 128, 0), 3U);
  const GridDecision all = decided(up, scale({3, 1}));
  EXPECT_EQ(cell(all.grid, 0, 0), 1U) << "row 192 of all";
  EXPECT_EQ(cell(all.grid, 63, 0), 1U);
  EXPECT_EQ(cell(all.grid, 64, 0), 2U);
}

TEST(ScaleGrid, FourBitFormatsAreKnownByTheirScales) {
  const auto layout = [](Dtype weight, Dtype dtype) {
    return std::get<GridDecision>(decide_grid(alone(64, 64), weight, scale({64, 4}, dtype), {})).layout;
  };
  EXPECT_EQ(layout(Dtype::u8, Dtype::f8_e4m3), QuantLayout::nvfp4);
  EXPECT_EQ(layout(Dtype::u8, Dtype::u8), QuantLayout::mxfp4);
  EXPECT_EQ(layout(Dtype::f4_e2m1, Dtype::f8_e8m0), QuantLayout::mxfp4);
}

}  // namespace
}  // namespace mtpcheck
