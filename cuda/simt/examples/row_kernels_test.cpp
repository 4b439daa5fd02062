#include "cuda/simt/examples/row_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace simt::examples {
namespace {

std::vector<float> gaussian(std::size_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

TEST(RowKernels, RmsNormAgreesWithItsDefinition) {
  for (const int n : {1, 31, 64, 65, 300}) {
    const int rows = 3;
    const auto x = gaussian(rows * n);
    const auto w = gaussian(n);
    std::vector<__nv_bfloat16> y(x.size());
    rms_norm(nullptr, 64, x.data(), w.data(), y.data(), rows, n, 1e-5f);
    for (int row = 0; row < rows; ++row) {
      double squares = 0;
      for (int i = 0; i < n; ++i) squares += static_cast<double>(x[row * n + i]) * x[row * n + i];
      for (int i = 0; i < n; ++i) {
        const double expected = x[row * n + i] / std::sqrt(squares / n + 1e-5) * w[i];
        ASSERT_NEAR(static_cast<double>(__bfloat162float(y[row * n + i])), expected, std::abs(expected) / 200)
            << "n " << n << ", row " << row << ", column " << i;
      }
    }
  }
}

TEST(RowKernels, SoftmaxAgreesWithItsDefinitionInEveryOrder) {
  const int rows = 5;  // no multiple of the warps in a block
  for (const Order order : {Order::ascending, Order::descending, Order::shuffled}) {
    Options options;
    options.order = order;
    const ScopedOptions scope(options);
    for (const int n : {1, 33, 100}) {
      const auto x = gaussian(rows * n);
      std::vector<float> y(x.size());
      int full = 0;
      softmax(nullptr, 2, x.data(), y.data(), rows, n, &full);
      EXPECT_EQ(full, rows);
      for (int row = 0; row < rows; ++row) {
        double sum = 0;
        for (int i = 0; i < n; ++i) sum += std::exp(static_cast<double>(x[row * n + i]));
        for (int i = 0; i < n; ++i)
          ASSERT_NEAR(static_cast<double>(y[row * n + i]), std::exp(static_cast<double>(x[row * n + i])) / sum, 1e-6);
      }
    }
  }
}

}  // namespace
}  // namespace simt::examples
