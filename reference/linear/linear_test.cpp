#include "reference/linear/linear.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "reference/linear/kernel.h"
#include "reference/tensor/error.h"
#include "reference/tensor/float_formats.h"

namespace mtpcheck {
namespace {

std::vector<const kernel::Kernels*> kernels_here() {
  std::vector<const kernel::Kernels*> all{&kernel::kBaseline};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0) all.push_back(&kernel::kAvx2);
  if (linear_kernels() == "avx512") all.push_back(&kernel::kAvx512);
#endif
  return all;
}

bool same(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }

/// All codes of a format of `bytes` bytes an element, decoded at every alignment of the vector loop.
template <class Value>
void expect_decoded(kernel::Storage storage, std::size_t bytes, Value value) {
  const std::size_t codes = bytes == 1 ? 256 : 65536;
  std::vector<unsigned char> data(codes * bytes + 1);
  for (std::size_t i = 0; i < codes; ++i) std::memcpy(data.data() + 1 + i * bytes, &i, bytes);
  for (const auto* kernels : kernels_here()) {
    kernel::Weights weights;
    weights.storage = storage;
    weights.data = data.data() + 1;
    for (const std::size_t first : {0, 1, 5, 13}) {
      std::vector<float> out(codes - first);
      std::vector<double> wide(codes - first);
      kernels->decode_f32(weights, 0, first, out.size(), out.data());
      kernels->decode_f64(weights, 0, first, wide.size(), wide.data());
      for (std::size_t i = 0; i < out.size(); ++i) {
        const float expected = value(i + first);
        ASSERT_TRUE(same(out[i], expected) || (std::isnan(out[i]) && std::isnan(expected)))
            << kernels->name << " code " << i + first << ": " << out[i] << ", expected " << expected;
        ASSERT_TRUE(wide[i] == static_cast<double>(expected) || std::isnan(expected));
      }
    }
  }
}

TEST(Decode, EveryCodeOfEveryFormat) {
  using kernel::Storage;
  expect_decoded(Storage::bf16, 2, [](std::size_t i) { return bf16_to_f32(static_cast<std::uint16_t>(i)); });
  expect_decoded(Storage::f16, 2, [](std::size_t i) { return f16_to_f32(static_cast<std::uint16_t>(i)); });
  expect_decoded(Storage::e4m3, 1, [](std::size_t i) { return e4m3_to_f32(static_cast<std::uint8_t>(i)); });
  expect_decoded(Storage::e5m2, 1, [](std::size_t i) { return e5m2_to_f32(static_cast<std::uint8_t>(i)); });
}

/// Random E4M3 weights [rows, cols] with a grid of float32 scales.
struct Quantised {
  Quantised(std::size_t rows, std::size_t cols, std::size_t block_rows, std::size_t block_cols, unsigned seed)
      : codes(rows * cols), stride((cols + block_cols - 1) / block_cols) {
    std::mt19937 random(seed);
    for (auto& code : codes) {
      do code = static_cast<std::uint8_t>(random());
      while ((code & 0x7F) == 0x7F);
    }
    scales.resize((rows + block_rows - 1) / block_rows * stride);
    for (auto& scale : scales) scale = std::ldexp(1.0F + static_cast<float>(random() % 1000) / 1000.0F, -8);
    matrix.rows = rows;
    matrix.cols = cols;
    matrix.dtype = Dtype::f8_e4m3;
    matrix.data = reinterpret_cast<const std::byte*>(codes.data());
    matrix.name = std::string("w");
    matrix.scales = {Dtype::f32, reinterpret_cast<const std::byte*>(scales.data()), block_rows, block_cols, stride, 0};
  }
  double element(std::size_t r, std::size_t c) const {
    return static_cast<double>(e4m3_to_f32(codes[r * matrix.cols + c])) *
           static_cast<double>(scales[r / matrix.scales.block_rows * stride + c / matrix.scales.block_cols]);
  }
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
  std::size_t stride;
  Matrix matrix;
};

TEST(Decode, ScalesFollowTheirGridAcrossPartialBlocksAndSlices) {
  for (const auto& [block_rows, block_cols] :
       {std::pair<std::size_t, std::size_t>{128, 128}, {1, 32}, {1, 300}, {200, 300}, {64, 64}}) {
    const Quantised w(200, 300, block_rows, block_cols, 1);
    const auto all = decode_all<double>(w.matrix);
    const auto narrow = decode_all<float>(w.matrix);
    for (std::size_t r = 0; r < 200; ++r) {
      for (std::size_t c = 0; c < 300; ++c) {
        ASSERT_EQ(all(r, c), w.element(r, c));
        ASSERT_EQ(narrow(r, c), static_cast<float>(w.element(r, c)));
      }
    }
    const auto slice = decode_all<double>(rows_of(w.matrix, 70, 100));
    ASSERT_TRUE(slice == all.middleRows(70, 100));
  }
}

template <class S>
Rows<S> random_rows(Eigen::Index rows, Eigen::Index cols, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  return Rows<S>::NullaryExpr(rows, cols, [&] { return static_cast<S>(normal(random)); });
}

TEST(Linear, AgreesWithAPlainSumInFloat64) {
  ThreadPool pool(3);
  for (const auto& [t, rows, cols] :
       {std::tuple<int, int, int>{1, 1, 1}, {3, 7, 5}, {5, 50, 1024}, {200, 13, 700}, {17, 29, 1300}}) {
    const Quantised w(rows, cols, 128, 128, 2);
    const auto x = random_rows<double>(t, cols, 3);
    const auto y = linear(x, w.matrix, pool);
    const Rows<double> expected = x * decode_all<double>(w.matrix).transpose();
    EXPECT_LE((y - expected).cwiseAbs().maxCoeff(), 1e-13 * expected.cwiseAbs().maxCoeff()) << t << " " << cols;
  }
}

TEST(Linear, SameBitsForAnyNumberOfThreadsAndTokens) {
  const Quantised w(101, 1500, 128, 128, 4);
  const auto x = random_rows<float>(37, 1500, 5);
  ThreadPool one(1);
  const auto all = linear(x, w.matrix, one);
  for (const std::size_t threads : {2, 5, 16}) {
    ThreadPool pool(threads);
    EXPECT_TRUE(linear(x, w.matrix, pool) == all) << threads;
  }
  for (Eigen::Index t = 0; t < x.rows(); ++t) {
    const Rows<float> row = x.row(t);
    EXPECT_TRUE(linear(row, w.matrix, one) == all.row(t)) << t;
  }
}

TEST(Linear, EveryInstructionSetWithFusedMultiplyAddGivesTheSameBits) {
  const Quantised w(31, 2100, 1, 32, 6);
  const Rows<float> x = random_rows<float>(9, 2112, 7).array() * 1.0F;
  Rows<float> padded = x;
  padded.rightCols(12).setZero();
  kernel::Product<float> product;
  product.x = padded.data();
  product.x_stride = 2112;
  product.tokens = 9;
  product.weights.storage = kernel::Storage::e4m3;
  product.weights.data = w.codes.data();
  product.weights.row_bytes = 2100;
  product.columns = 2100;
  product.row_end = 31;
  std::vector<Rows<float>> results;
  for (const auto* kernels : kernels_here()) {
    alignas(64) static float scratch[kernel::kScratchBytes / sizeof(float)];
    results.emplace_back(9, 31);
    product.out = results.back().data();
    product.out_stride = 31;
    product.scratch = scratch;
    kernels->product_f32(product);
  }
  const float size = results.back().cwiseAbs().maxCoeff();
  EXPECT_LE((results.front() - results.back()).cwiseAbs().maxCoeff(), 1e-5F * size);
  for (std::size_t i = 2; i < results.size(); ++i) EXPECT_TRUE(results[i] == results[1]) << kernels_here()[i]->name;
}

TEST(Linear, InOrderIsOneRunningSumAColumnAfterTheOther) {
  ThreadPool pool(3);
  const Quantised w(29, 300, 128, 128, 4);
  const auto x = random_rows<float>(7, 300, 5);
  const auto decoded = decode_all<float>(w.matrix);
  const auto found = linear_in_order(x, w.matrix, pool);
  const auto lanes = linear(x, w.matrix, pool);
  for (Eigen::Index t = 0; t < 7; ++t) {
    for (Eigen::Index r = 0; r < 29; ++r) {
      float sum = 0;
      for (Eigen::Index c = 0; c < 300; ++c) sum += x(t, c) * decoded(r, c);
      ASSERT_NEAR(found(t, r), sum, 1e-6F * decoded.row(r).norm());  // fused or not, as the compiler has it
    }
  }
  const auto exact = linear<double>(x.cast<double>(), w.matrix, pool);
  EXPECT_GT((found.cast<double>() - exact).norm(), (lanes.cast<double>() - exact).norm());
  EXPECT_THROW(linear_in_order(random_rows<float>(2, 299, 1), w.matrix, pool), Error);
}

TEST(Linear, NotANumberStaysInItsOwnOutputs) {
  ThreadPool pool(2);
  const Quantised w(20, 130, 128, 128, 8);
  auto x = random_rows<float>(6, 130, 9);
  const auto clean = linear(x, w.matrix, pool);
  x(2, 129) = std::numeric_limits<float>::quiet_NaN();
  const auto y = linear(x, w.matrix, pool);
  for (Eigen::Index t = 0; t < 6; ++t) {
    for (Eigen::Index r = 0; r < 20; ++r) EXPECT_TRUE(t == 2 ? std::isnan(y(t, r)) : y(t, r) == clean(t, r));
  }
}

TEST(Linear, ProductOfActivations) {
  const auto x = random_rows<double>(5, 37, 10);
  const auto y = random_rows<double>(11, 37, 11);
  Rows<double> out(5, 11);
  product_into(x.data(), 37, 5, y.data(), 37, 11, 37, out.data(), 11);
  EXPECT_LE((out - x * y.transpose()).cwiseAbs().maxCoeff(), 1e-13);
}

TEST(Linear, RefusesWhatItCannotCompute) {
  ThreadPool pool(1);
  Quantised w(4, 8, 128, 128, 12);
  EXPECT_THROW(linear(random_rows<float>(1, 9, 1), w.matrix, pool), Error);
  w.matrix.dtype = Dtype::f4_e2m1;
  EXPECT_THROW(linear(random_rows<float>(1, 8, 1), w.matrix, pool), Error);
}

}  // namespace
}  // namespace mtpcheck
