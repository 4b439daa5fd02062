#include "harness/parity/metrics/error_sums.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "harness/parity/metrics/kernel/error_kernel.h"
#include "reference/tensor/error.h"
#include "reference/tensor/float_formats.h"

namespace mtpcheck {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor doubles(const std::vector<double>& values) { return tensor_of<double>({values.size()}, values); }

Tensor bf16_of(const std::vector<float>& values) {
  Tensor tensor = make_tensor(Dtype::bf16, {values.size()});
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t bits = f32_to_bf16(values[i]);
    std::memcpy(tensor.bytes.data() + 2 * i, &bits, 2);
  }
  return tensor;
}

ErrorSums compared(const std::vector<double>& candidate, const std::vector<double>& reference) {
  return compare_values(doubles(candidate).view(), doubles(reference).view());
}

TEST(ErrorSums, CountsByHand) {
  const ErrorSums sums = compared({1, 2, 3, -4, 0}, {1, 2, 5, -1, 0});
  EXPECT_DOUBLE_EQ(sums.max_abs, 3);
  EXPECT_EQ(sums.max_index, 3u);
  EXPECT_DOUBLE_EQ(sums.mean_abs(), 1);
  EXPECT_DOUBLE_EQ(sums.rms(), std::sqrt(13.0 / 5));
  EXPECT_DOUBLE_EQ(sums.relative_l2(), std::sqrt(13.0 / 31));
  EXPECT_NEAR(sums.cosine_distance(), 1 - 24 / std::sqrt(30.0 * 31), 1e-15);
  EXPECT_DOUBLE_EQ(sums.reference_range, 5);
}

TEST(ErrorSums, MasksComeFirst) {
  const ErrorSums sums = compared({kNaN, kInf, -kInf, kInf, 1, kNaN}, {kNaN, kInf, -kInf, -kInf, kNaN, 1});
  EXPECT_EQ(sums.elements, 0u);
  EXPECT_EQ(sums.mask_mismatches, 4u);  // both NaN, opposite infinities, NaN on one side, twice
  EXPECT_EQ(sums.candidate_nan, 2u);
  EXPECT_EQ(sums.reference_nan, 2u);
  EXPECT_EQ(sums.candidate_inf, 3u);
}

TEST(ErrorSums, CosineDistanceOfNearEqualVectorsIsNotLostInOne) {
  std::vector<double> reference(1000);
  std::vector<double> candidate(1000);
  for (std::size_t i = 0; i < reference.size(); ++i) {
    reference[i] = std::sin(static_cast<double>(i));
    candidate[i] = reference[i] + 1e-12 * std::cos(3 * static_cast<double>(i));
  }
  const double distance = compared(candidate, reference).cosine_distance();
  EXPECT_GT(distance, 1e-26);
  EXPECT_LT(distance, 1e-23);
}

TEST(ErrorSums, ZeroSides) {
  EXPECT_EQ(compared({0, 0}, {0, 0}).relative_l2(), 0);
  EXPECT_EQ(compared({0, 0}, {0, 0}).cosine_distance(), 0);
  EXPECT_EQ(compared({0, 0}, {1, 0}).cosine_distance(), 1);
  EXPECT_EQ(compared({1, 0}, {0, 0}).relative_l2(), kInf);
}

TEST(ErrorSums, RowsAddUpToTheWhole) {
  std::vector<double> reference(60);
  std::vector<double> candidate(60);
  for (std::size_t i = 0; i < reference.size(); ++i) {
    reference[i] = static_cast<double>(i);
    candidate[i] = static_cast<double>(i) + static_cast<double>((i * 7) % 5);
  }
  const Tensor c = doubles(candidate);
  const Tensor r = doubles(reference);
  const auto rows = compare_rows(c.view(), r.view(), 4);
  ErrorSums sums;
  for (std::size_t row = 0; row < rows.size(); ++row) append(sums, rows[row], row * 15);
  const ErrorSums whole = compare_values(c.view(), r.view());
  EXPECT_DOUBLE_EQ(sums.squares, whole.squares);
  EXPECT_EQ(sums.max_abs, whole.max_abs);
  EXPECT_EQ(whole.max_index, 2u);
  EXPECT_EQ(sums.elements, 60u);
  EXPECT_THROW(compare_rows(c.view(), r.view(), 7), Error);
}

/// Every level the processor has gives the bits of the portable one, for every pairing of types and awkward lengths.
TEST(ErrorKernel, LevelsAgreeBitForBit) {
  std::vector<std::byte> candidate(8 * 1003);
  std::vector<std::byte> reference(8 * 1003);
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < candidate.size(); ++i) {  // any bit pattern: NaNs and infinities of every type included
    state = state * 1664525u + 1013904223u;
    candidate[i] = static_cast<std::byte>(state >> 24);
    reference[i] = static_cast<std::byte>(state >> 16);
  }
  for (const KernelType c : {KernelType::f64, KernelType::f32, KernelType::bf16}) {
    for (const KernelType r : {KernelType::f64, KernelType::f32, KernelType::bf16}) {
      for (const std::size_t count : {1u, 7u, 8u, 9u, 1003u}) {
        const ErrorSums expected =
            error_kernel(c, r, InstructionSet::baseline)(candidate.data(), reference.data(), count, 0);
        for (const InstructionSet level : {InstructionSet::avx2, InstructionSet::avx512}) {
          if (!supported(level)) continue;
          const ErrorSums found = error_kernel(c, r, level)(candidate.data(), reference.data(), count, 0);
          EXPECT_EQ(std::memcmp(&expected, &found, sizeof(expected)), 0);
        }
      }
    }
  }
}

TEST(ErrorSums, TypesMix) {
  const Tensor reference = doubles({1.0, 2.0, -3.0});
  const Tensor candidate = bf16_of({1.0f, 2.0f, -3.015625f});
  const ErrorSums sums = compare_values(candidate.view(), reference.view());
  EXPECT_DOUBLE_EQ(sums.max_abs, 0.015625);
  EXPECT_EQ(sums.max_index, 2u);
}

}  // namespace
}  // namespace mtpcheck
