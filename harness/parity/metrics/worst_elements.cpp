#include "harness/parity/metrics/worst_elements.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mtpcheck {
namespace {

double badness(double candidate, double reference) {
  if (candidate == reference) return 0;
  const double error = std::abs(candidate - reference);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

}  // namespace

std::vector<std::int64_t> coordinates(std::size_t index, std::span<const std::size_t> shape) {
  std::vector<std::int64_t> at(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    at[d] = static_cast<std::int64_t>(index % shape[d]);
    index /= shape[d];
  }
  return at;
}

std::vector<reports::WorstElement> worst_elements(const TensorView& candidate, const TensorView& reference,
                                                  std::size_t count) {
  const std::vector<double> c = to_f64(candidate);
  const std::vector<double> r = to_f64(reference);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < r.size(); ++i) {
    if (badness(c[i], r[i]) > 0) order.push_back(i);
  }
  const std::size_t shown = std::min(count, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shown), order.end(),
                    [&](std::size_t a, std::size_t b) {
                      const double left = badness(c[a], r[a]);
                      const double right = badness(c[b], r[b]);
                      return left != right ? left > right : a < b;
                    });
  std::vector<reports::WorstElement> worst;
  for (std::size_t i = 0; i < shown; ++i) {
    worst.push_back({coordinates(order[i], reference.shape), r[order[i]], c[order[i]]});
  }
  return worst;
}

std::vector<double> channel_errors(const TensorView& candidate, const TensorView& reference) {
  const std::size_t channels = reference.shape.empty() ? 1 : reference.shape.back();
  std::vector<double> squares(channels);
  std::vector<std::size_t> counts(channels);
  const std::vector<double> c = to_f64(candidate);
  const std::vector<double> r = to_f64(reference);
  for (std::size_t i = 0; i < r.size(); ++i) {
    const double error = c[i] - r[i];
    if (!std::isfinite(error)) continue;
    squares[i % channels] += error * error;
    ++counts[i % channels];
  }
  for (std::size_t i = 0; i < channels; ++i) {
    squares[i] = counts[i] == 0 ? 0 : std::sqrt(squares[i] / static_cast<double>(counts[i]));
  }
  return squares;
}

}  // namespace mtpcheck
