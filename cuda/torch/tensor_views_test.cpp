#include "cuda/torch/tensor_views.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/tensor/error.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {
namespace {

using ::testing::HasSubstr;

at::Tensor bf16_zeros(at::IntArrayRef shape) { return at::zeros(shape, at::TensorOptions(at::kBFloat16)); }

template <class Action>
std::string refusal(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "(accepted)";
}

std::string matrix_refusal(const TensorMatrix& matrix) {
  return refusal([&] { matrix_view(matrix, "w"); });
}

TEST(MatrixView, IsWhereTheTensorIs) {
  const auto stack = bf16_zeros({3, 10, 64});
  const WeightView all = matrix_view({stack}, "w");
  EXPECT_EQ(all.data, stack.data_ptr());
  EXPECT_EQ(all.rows, 10);
  EXPECT_EQ(all.cols, 64);
  EXPECT_EQ(all.stride, 64);
  EXPECT_EQ(all.matrix_stride, 640);
  // The upper half of a fused stack.
  const auto half = stack.narrow(1, 5, 5);
  const WeightView upper = matrix_view({half}, "w");
  EXPECT_EQ(upper.data, static_cast<const char*>(stack.data_ptr()) + std::ptrdiff_t{5} * 64 * 2);
  EXPECT_EQ(upper.rows, 5);
  EXPECT_EQ(upper.matrix_stride, 640);
}

TEST(MatrixView, RowsThatAreNoMultipleOf32NeedZerosBehindThem) {
  const auto padded = bf16_zeros({4, 64});
  EXPECT_EQ(matrix_view({padded.narrow(1, 0, 40)}, "w").stride, 64);
  padded[2][50] = 1.0;
  EXPECT_THAT(matrix_refusal({padded.narrow(1, 0, 40)}), HasSubstr("rows of 40, which is no multiple of 32: 24 zeros"));
  EXPECT_THAT(matrix_refusal({bf16_zeros({4, 40})}), HasSubstr("24 zeros must follow"));
}

TEST(MatrixView, ScalesBecomeTheKernelsGrid) {
  const auto codes = at::zeros({2, 200, 256}, at::TensorOptions(at::kFloat8_e4m3fn));
  const auto blocks = at::ones({2, 2, 2}, at::TensorOptions(at::kFloat));
  const WeightView block = matrix_view({codes, blocks, 128, 128}, "w");
  EXPECT_EQ(block.format, WeightFormat::e4m3_f32);
  EXPECT_EQ(block.scales, blocks.data_ptr());
  EXPECT_EQ(block.block_rows, 128);
  EXPECT_EQ(block.column_shift, 7);
  EXPECT_EQ(block.scale_stride, 2);
  EXPECT_EQ(block.scale_matrix_stride, 4);
  const auto exponents = at::ones({2, 200, 8}, at::TensorOptions(at::kFloat8_e8m0fnu));
  const WeightView mx = matrix_view({codes, exponents, 1, 32}, "w");
  EXPECT_EQ(mx.format, WeightFormat::e4m3_e8m0);
  EXPECT_EQ(mx.column_shift, 5);
  const auto channels = at::ones({2, 200, 1}, at::TensorOptions(at::kFloat));
  EXPECT_EQ(matrix_view({codes, channels, 1, 256}, "w").column_shift, 31);
}

TEST(MatrixView, SaysWhatDoesNotFit) {
  EXPECT_THAT(matrix_refusal({at::Tensor()}), HasSubstr("w is no tensor"));
  EXPECT_THAT(matrix_refusal({bf16_zeros({64})}), HasSubstr("w is [64], expected a matrix"));
  EXPECT_THAT(matrix_refusal({at::zeros({2, 64})}), HasSubstr("w is Float, expected BFloat16"));
  EXPECT_THAT(matrix_refusal({bf16_zeros({64, 64}).t().narrow(0, 0, 2).narrow(1, 0, 32)}),
              HasSubstr("has strides [1, 64]"));
  EXPECT_THAT(matrix_refusal({bf16_zeros({65 * 64}).narrow(0, 1, 64 * 64).view({64, 64})}),
              HasSubstr("expected a multiple of 16 bytes"));
  EXPECT_THAT(matrix_refusal({bf16_zeros({4, 68}).narrow(1, 0, 64)}), HasSubstr("rows at multiples of 16 bytes"));
  EXPECT_THAT(matrix_refusal({at::empty({2, 64}, at::TensorOptions(at::kBFloat16).device(at::kMeta))}),
              HasSubstr("w is on meta, expected cpu"));
  EXPECT_THAT(matrix_refusal({bf16_zeros({2, 64}), at::ones({2, 2})}), HasSubstr("is bf16 and has scales"));
  const auto codes = at::zeros({4, 64}, at::TensorOptions(at::kFloat8_e4m3fn));
  EXPECT_THAT(matrix_refusal({codes}), HasSubstr("w's scales is no tensor"));
  EXPECT_THAT(matrix_refusal({codes, at::ones({4, 1}), 1, 32}), HasSubstr("w's scales is [4, 1], expected [4, 2]"));
  EXPECT_THAT(matrix_refusal({codes, at::ones({4, 4}), 1, 16}), HasSubstr("blocks of 1 x 16"));
  EXPECT_THAT(matrix_refusal({codes, bf16_zeros({4, 2}), 1, 32}), HasSubstr("w's scales is BFloat16"));
}

TEST(RowsView, IsWhereTheTensorIsOrSaysWhyNot) {
  const auto rows = bf16_zeros({5, 64});
  EXPECT_EQ(static_cast<const void*>(bf16_rows_view(rows, 5, 64, "x")), rows.data_ptr());
  EXPECT_EQ(static_cast<const void*>(bf16_rows_view(rows.narrow(1, 0, 60), 5, 60, "x")), rows.data_ptr());
  const auto wide = at::zeros({2, 8});
  EXPECT_EQ(static_cast<const void*>(f32_rows_view(wide, 2, 8, "x")), wide.data_ptr());
  EXPECT_THAT(refusal([&] { bf16_rows_view(rows, 4, 64, "x"); }), HasSubstr("x is [5, 64], expected [4, 64]"));
  EXPECT_THAT(refusal([&] { bf16_rows_view(rows.t().contiguous().t(), 5, 64, "x"); }),
              HasSubstr("x has strides [1, 5], expected [64, 1]: make it contiguous()"));
  EXPECT_THAT(refusal([&] { bf16_rows_view(bf16_zeros({2, 9}), 2, 9, "x"); }), HasSubstr("expected [16, 1]"));
}

TEST(IndexView, TakesInt32) {
  const auto ids = at::zeros({6}, at::TensorOptions(at::kInt));
  EXPECT_EQ(static_cast<const void*>(index_view(ids, 6, "ids")), ids.data_ptr());
  EXPECT_THAT(refusal([&] { index_view(ids.to(at::kLong), 6, "ids"); }), HasSubstr("ids is Long, expected Int"));
  EXPECT_THAT(refusal([&] { index_view(ids.slice(0, 0, 6, 2), 3, "ids"); }), HasSubstr("ids is not contiguous"));
}

}  // namespace
}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
