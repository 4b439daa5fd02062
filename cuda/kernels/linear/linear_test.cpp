#include "cuda/kernels/linear/linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cuda/kernels/linear/linear_f32.h"
#include "cuda/kernels/testing/close.h"
#include "cuda/kernels/testing/rows.h"
#include "cuda/kernels/testing/weights.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {
namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::bf16, WeightFormat::e4m3_f32, WeightFormat::e4m3_e8m0};

Grid usual_grid(WeightFormat format) {
  return format == WeightFormat::e4m3_f32 ? Grid{.block_rows = 128, .column_shift = 7}
                                          : Grid{.block_rows = 1, .column_shift = 5};
}

/// x Wᵀ, and the sum of magnitudes that float32's rounding errors are proportional to.
struct Product {
  std::vector<double> y;
  double magnitude = 0;
};

Product product(const Rows<__nv_bfloat16>& x, const TestWeights& w, int x_offset, int x_step) {
  Product p;
  for (int t = 0; t < x.rows; ++t) {
    for (int m = 0; m < w.matrices; ++m) {
      for (int r = 0; r < w.rows; ++r) {
        double sum = 0;
        double magnitude = 0;
        for (int c = 0; c < w.cols; ++c) {
          const double term = x.at(t, x_offset + m * x_step + c) * w.at(m, r, c);
          sum += term;
          magnitude += std::abs(term);
        }
        p.y.push_back(sum);
        p.magnitude = std::max(p.magnitude, magnitude);
      }
    }
  }
  return p;
}

using Kernel = void (*)(Stream, const Linear&);

void check(Kernel kernel, unsigned seed, WeightFormat format, int tokens, int rows, int cols, Grid grid,
           int matrices = 1, int x_offset = 0) {
  SCOPED_TRACE(::testing::Message() << tokens << " tokens, " << matrices << " x " << rows << " x " << cols
                                    << ", format " << static_cast<int>(format));
  Random random(seed);
  const auto w = random_weights(random, format, matrices, rows, cols, grid);
  const int width = x_offset + matrices * cols + 3;
  const auto x = random_rows<__nv_bfloat16>(random, tokens, width);
  const auto y = rows_for<float>(tokens, matrices * rows);
  Linear p{.tokens = tokens, .x = x.device.data(), .x_stride = row_stride(width), .segments = 1, .segment = {}};
  p.segment[0] = {.weight = w.view,
                  .matrices = matrices,
                  .x_offset = x_offset,
                  .x_step = cols,
                  .y_f32 = y.data(),
                  .y_stride = row_stride(matrices * rows),
                  .y_step = rows};
  kernel(nullptr, p);
  const Product expected = product(x, w, x_offset, cols);
  EXPECT_TRUE(all_close(read_rows(y, tokens, matrices * rows), expected.y, 0, 2e-6 * expected.magnitude));
}

TEST(Linear, StreamedOfEveryNumberOfTokens) {
  for (const WeightFormat format : kFormats) {
    for (const int tokens : {1, 2, 7, 8, 9, 16, 17, 31, 32}) {
      check(linear_streamed, 1, format, tokens, 40, 160, usual_grid(format));
    }
  }
}

TEST(Linear, StreamedOfShapesThatFillNoTile) {
  for (const WeightFormat format : kFormats) {
    for (const auto& [rows, cols] :
         {std::pair{1, 1}, {1, 4096}, {33, 31}, {16, 32}, {17, 33}, {129, 65}, {5, 1000}, {300, 24}}) {
      check(linear_streamed, 2, format, 3, rows, cols, usual_grid(format));
      check(linear_streamed, 3, format, 19, rows, cols, usual_grid(format));
    }
  }
}

TEST(Linear, TiledOfShapesThatFillNoTile) {
  for (const WeightFormat format : kFormats) {
    for (const auto& [tokens, rows, cols] :
         {std::tuple{1, 1, 1}, {65, 130, 70}, {64, 128, 64}, {130, 20, 33}, {3, 257, 200}, {40, 64, 24}}) {
      check(linear_tiled, 4, format, tokens, rows, cols, usual_grid(format));
    }
  }
}

TEST(Linear, ScaleGridsOfOtherShapes) {
  for (const Kernel kernel : {linear_streamed, linear_tiled}) {
    check(kernel, 5, WeightFormat::e4m3_f32, 5, 50, 100, {.block_rows = 1, .column_shift = 31});     // per channel
    check(kernel, 6, WeightFormat::e4m3_f32, 5, 50, 100, {.block_rows = 50, .column_shift = 31});    // per tensor
    check(kernel, 7, WeightFormat::e4m3_f32, 5, 200, 300, {.block_rows = 64, .column_shift = 6});    // refined blocks
    check(kernel, 8, WeightFormat::e4m3_e8m0, 5, 200, 300, {.block_rows = 128, .column_shift = 7});  // ue8m0 blocks
  }
}

TEST(Linear, StackedMatricesReadTheirOwnPieces) {
  for (const Kernel kernel : {linear_streamed, linear_tiled}) {
    for (const WeightFormat format : kFormats) {
      check(kernel, 9, format, 6, 20, 24, usual_grid(format), 4);
      check(kernel, 10, format, 2, 33, 7, usual_grid(format), 3, 5);  // pieces that no 16-byte load can read
    }
  }
}

TEST(Linear, SegmentsOfDifferentFormatsShareALaunch) {
  for (const Kernel kernel : {linear_streamed, linear_tiled}) {
    Random random(11);
    const int tokens = 9;
    const int cols = 96;
    const auto x = random_rows<__nv_bfloat16>(random, tokens, cols);
    const auto a = random_weights(random, WeightFormat::bf16, 1, 50, cols);
    const auto b = random_weights(random, WeightFormat::e4m3_f32, 1, 7, cols, usual_grid(WeightFormat::e4m3_f32));
    const auto c = random_weights(random, WeightFormat::e4m3_e8m0, 1, 130, cols);
    const auto ya = rows_for<__nv_bfloat16>(tokens, 50);
    const auto yb = rows_for<float>(tokens, 7);
    const auto yc = rows_for<__nv_bfloat16>(tokens, 130);
    Linear p{.tokens = tokens, .x = x.device.data(), .x_stride = row_stride(cols), .segments = 3, .segment = {}};
    p.segment[0] = {.weight = a.view, .y = ya.data(), .y_stride = row_stride(50)};
    p.segment[1] = {.weight = b.view, .y_f32 = yb.data(), .y_stride = row_stride(7)};
    p.segment[2] = {.weight = c.view, .y = yc.data(), .y_stride = row_stride(130)};
    kernel(nullptr, p);
    const Product pa = product(x, a, 0, 0);
    const Product pb = product(x, b, 0, 0);
    const Product pc = product(x, c, 0, 0);
    EXPECT_TRUE(all_close(read_rows(ya, tokens, 50), pa.y, kBf16, 2e-6 * pa.magnitude));
    EXPECT_TRUE(all_close(read_rows(yb, tokens, 7), pb.y, 0, 2e-6 * pb.magnitude));
    EXPECT_TRUE(all_close(read_rows(yc, tokens, 130), pc.y, kBf16, 2e-6 * pc.magnitude));
  }
}

/// Rows of one weight each: 448, −448, the smallest subnormal, zero; NaN only in the row that holds one.
TEST(Linear, TheEndsOfE4M3) {
  for (const Kernel kernel : {linear_streamed, linear_tiled}) {
    for (const WeightFormat format : {WeightFormat::e4m3_f32, WeightFormat::e4m3_e8m0}) {
      const int rows = 6;
      const int cols = 40;
      std::vector<std::uint8_t> codes(static_cast<std::size_t>(rows) * weight_stride(cols), 0);
      const std::uint8_t edge[rows] = {0x7E, 0xFE, 0x01, 0x00, 0x7F, 0xFF};
      for (int r = 0; r < rows; ++r) codes[static_cast<std::size_t>(r) * weight_stride(cols) + 37] = edge[r];
      const auto data = buffer_of(codes);
      const auto ones = buffer_of(std::vector<float>(rows * 2, 1.0f));
      const auto exponents = buffer_of(std::vector<std::uint8_t>(rows * 2, 127));
      const auto x = rows_of_values<__nv_bfloat16>(2, cols, [] {
        std::vector<double> values(80, 0.0);
        values[37] = 2.0;  // the second token is zero, and 0 · NaN is NaN
        return values;
      }());
      const auto y = rows_for<float>(2, rows);
      Linear p{.tokens = 2, .x = x.device.data(), .x_stride = row_stride(cols), .segments = 1, .segment = {}};
      p.segment[0] = {.weight = {.format = format,
                                 .data = data.data(),
                                 .rows = rows,
                                 .cols = cols,
                                 .stride = weight_stride(cols),
                                 .scales = format == WeightFormat::e4m3_f32 ? static_cast<const void*>(ones.data())
                                                                            : exponents.data(),
                                 .column_shift = 5,
                                 .scale_stride = 2},
                      .y_f32 = y.data(),
                      .y_stride = row_stride(rows)};
      kernel(nullptr, p);
      const double nan = std::numeric_limits<double>::quiet_NaN();
      EXPECT_TRUE(all_close(read_rows(y, 2, rows),
                            {896.0, -896.0, std::exp2(-8), 0.0, nan, nan, 0.0, 0.0, 0.0, 0.0, nan, nan}, 0, 0));
    }
  }
}

TEST(Linear, LargestBf16AndScalesOfAllExponents) {
  for (const Kernel kernel : {linear_streamed, linear_tiled}) {
    // 2^127 · 2^−127 = 1, and an exponent of 255 is NaN.
    const std::vector<std::uint8_t> codes(3 * 32, 0x38);  // 1.0
    const auto data = buffer_of(codes);
    const auto exponents = buffer_of<std::uint8_t>({0, 254, 255});
    const auto x = rows_of_values<__nv_bfloat16>(1, 1, {std::exp2(127)});
    const auto y = rows_for<float>(1, 3);
    Linear p{.tokens = 1, .x = x.device.data(), .x_stride = 8, .segments = 1, .segment = {}};
    p.segment[0] = {.weight = {.format = WeightFormat::e4m3_e8m0,
                               .data = data.data(),
                               .rows = 3,
                               .cols = 1,
                               .stride = 32,
                               .scales = exponents.data(),
                               .column_shift = 5,
                               .scale_stride = 1},
                    .y_f32 = y.data(),
                    .y_stride = 8};
    kernel(nullptr, p);
    const auto result = read_rows(y, 1, 3);
    EXPECT_EQ(result[0], 1.0);
    EXPECT_TRUE(std::isinf(result[1]));
    EXPECT_TRUE(std::isnan(result[2]));
  }
}

TEST(Linear, Float32Weights) {
  Random random(12);
  for (const auto& [tokens, rows, cols] : {std::tuple{1, 8, 64}, {17, 5, 301}, {130, 3, 7}, {2, 4, 6144}}) {
    const auto x = random_rows<__nv_bfloat16>(random, tokens, cols);
    const auto w = random_rows<float>(random, rows, cols);
    const auto y = rows_for<float>(tokens, rows);
    linear_f32(
        nullptr,
        {.tokens = tokens, .rows = rows, .cols = cols, .x = x.device.data(), .weight = w.device.data(), .y = y.data()});
    std::vector<double> expected;
    for (int t = 0; t < tokens; ++t) {
      for (int r = 0; r < rows; ++r) {
        double sum = 0;
        for (int c = 0; c < cols; ++c) sum += x.at(t, c) * w.at(r, c);
        expected.push_back(sum);
      }
    }
    EXPECT_TRUE(all_close(read_rows(y, tokens, rows), expected, kF32, 1e-4));
  }
}

}  // namespace
}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
