#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace mtpcheck::cuda {

/// Half a unit in the last place of bf16, and a hair for the float32 arithmetic before it.
inline constexpr double kBf16 = 1.02 / 256;
inline constexpr double kF32 = 1e-5;

/// Every element within `relative` of the expected one, or within `absolute`; NaN and infinities must be the same.
/// Reports the first element that is not.
inline ::testing::AssertionResult all_close(const std::vector<double>& actual, const std::vector<double>& expected,
                                            double relative, double absolute) {
  if (actual.size() != expected.size()) {
    return ::testing::AssertionFailure() << actual.size() << " elements, expected " << expected.size();
  }
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double a = actual[i];
    const double e = expected[i];
    if (std::isnan(e) ? std::isnan(a) : std::isinf(e) ? a == e : std::abs(a - e) <= relative * std::abs(e) + absolute) {
      continue;
    }
    return ::testing::AssertionFailure() << "element " << i << " is " << a << ", expected " << e;
  }
  return ::testing::AssertionSuccess();
}

}  // namespace mtpcheck::cuda
