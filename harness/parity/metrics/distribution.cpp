#include "harness/parity/metrics/distribution.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <vector>

#include "reference/tensor/float_formats.h"

namespace mtpcheck {
namespace {

/// The p-th quantile by nearest rank; reorders its input. 0 for none.
double quantile(std::vector<double>& values, double p) {
  if (values.empty()) return 0;
  const auto rank = static_cast<std::size_t>(std::ceil(p * static_cast<double>(values.size())));
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(rank, 1) - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

/// Bit patterns of sign and magnitude as integers in the order of the values.
template <class Bits>
std::int64_t ordered(Bits bits) {
  constexpr Bits sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  const auto magnitude = static_cast<std::int64_t>(bits & static_cast<Bits>(~sign));
  return (bits & sign) != 0 ? -magnitude : magnitude;
}

std::int64_t place(Dtype type, double value) {
  const auto narrow = static_cast<float>(value);
  if (type == Dtype::bf16) return ordered(f32_to_bf16(narrow));
  if (type == Dtype::f16) return ordered(f32_to_f16(narrow));
  return ordered(std::bit_cast<std::uint32_t>(narrow));
}

std::size_t bin_of(double error, double scale) {
  if (error == 0 || scale == 0) return error == 0 ? 0 : reports::kHistogramBins - 1;
  const int decade = static_cast<int>(std::floor(std::log10(error / scale))) - reports::kHistogramFirstDecade;
  return static_cast<std::size_t>(std::clamp(decade, 0, reports::kHistogramBins - 1));
}

}  // namespace

double ulp_distance(Dtype type, double a, double b) {
  if (type == Dtype::f64) return 0;
  return std::abs(static_cast<double>(place(type, a) - place(type, b)));
}

reports::DistributionRecord distribution(const TensorView& candidate, const TensorView& reference) {
  const std::vector<double> c = to_f64(candidate);
  const std::vector<double> r = to_f64(reference);
  reports::DistributionRecord record;
  record.histogram.assign(reports::kHistogramBins, 0);
  const bool has_ulps = candidate.dtype != Dtype::f64;
  std::vector<double> relative;
  std::vector<double> ulps;
  double squares = 0;
  std::size_t finite = 0;
  std::size_t reference_zeros = 0;
  std::size_t candidate_zeros = 0;
  for (std::size_t i = 0; i < r.size(); ++i) {
    if (!std::isfinite(c[i]) || !std::isfinite(r[i])) continue;
    ++finite;
    squares += r[i] * r[i];
    reference_zeros += r[i] == 0 ? 1 : 0;
    candidate_zeros += c[i] == 0 ? 1 : 0;
    record.sign_flips += c[i] * r[i] < 0 ? 1 : 0;
    if (r[i] != 0) relative.push_back(std::abs(c[i] - r[i]) / std::abs(r[i]));
    if (has_ulps) ulps.push_back(ulp_distance(candidate.dtype, c[i], r[i]));
  }
  if (finite == 0) return record;
  const auto count = static_cast<double>(finite);
  record.reference_zeros = static_cast<double>(reference_zeros) / count;
  record.candidate_zeros = static_cast<double>(candidate_zeros) / count;
  record.relative_p50 = quantile(relative, 0.5);
  record.relative_p90 = quantile(relative, 0.9);
  record.relative_p99 = quantile(relative, 0.99);
  record.relative_p999 = quantile(relative, 0.999);
  if (has_ulps) {
    double sum = 0;
    for (const double distance : ulps) sum += distance;
    record.ulp_mean = sum / count;
    record.ulp_max = *std::ranges::max_element(ulps);
    record.ulp_p99 = quantile(ulps, 0.99);
  }
  const double scale = std::sqrt(squares / count);
  for (std::size_t i = 0; i < r.size(); ++i) {
    if (std::isfinite(c[i]) && std::isfinite(r[i])) ++record.histogram[bin_of(std::abs(c[i] - r[i]), scale)];
  }
  return record;
}

}  // namespace mtpcheck
