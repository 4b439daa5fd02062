#include "reference/math/topk.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace mtpcheck {
namespace {

/// Whether index a ranks before index b.
template <class S>
struct Before {
  std::span<const S> scores;
  bool operator()(std::int32_t a, std::int32_t b) const {
    const S x = scores[static_cast<std::size_t>(a)];
    const S y = scores[static_cast<std::size_t>(b)];
    const bool x_nan = std::isnan(x);
    const bool y_nan = std::isnan(y);
    if (x_nan != y_nan) return x_nan;
    if (!x_nan && x != y) return x > y;
    return a < b;
  }
};

template <class S>
std::vector<std::int32_t> ranked(std::span<const S> scores, std::size_t count) {
  std::vector<std::int32_t> indices(scores.size());
  std::iota(indices.begin(), indices.end(), 0);
  if (count < indices.size()) {
    std::nth_element(indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(count), indices.end(),
                     Before<S>{scores});
  }
  return indices;
}

}  // namespace

template <class S>
std::vector<std::int32_t> largest(std::span<const S> scores, std::size_t count) {
  auto indices = ranked(scores, count);
  indices.resize(std::min(count, indices.size()));
  std::sort(indices.begin(), indices.end());
  return indices;
}

template <class S>
Boundary boundary(std::span<const S> scores, std::size_t count) {
  Boundary out;
  if (count == 0 || count >= scores.size()) {
    out.everything = true;
    return out;
  }
  const auto indices = ranked(scores, count);
  const auto score = [&](std::int32_t i) { return static_cast<double>(scores[static_cast<std::size_t>(i)]); };
  const auto middle = indices.begin() + static_cast<std::ptrdiff_t>(count);
  const Before<S> before{scores};
  out.last_chosen = score(*std::max_element(indices.begin(), middle, before));
  out.first_left_out = score(*middle);
  for (auto i = indices.begin(); i != middle; ++i) out.tied_in += score(*i) == out.first_left_out ? 1 : 0;
  for (auto i = middle; i != indices.end(); ++i) out.tied_out += score(*i) == out.last_chosen ? 1 : 0;
  return out;
}

template std::vector<std::int32_t> largest(std::span<const float>, std::size_t);
template std::vector<std::int32_t> largest(std::span<const double>, std::size_t);
template Boundary boundary(std::span<const float>, std::size_t);
template Boundary boundary(std::span<const double>, std::size_t);

}  // namespace mtpcheck
