#include "reference/math/indexer.h"

#include <algorithm>
#include <vector>

#include "reference/linear/linear.h"

namespace mtpcheck {

template <class S>
void index_scores(const S* queries, std::span<const S> weights, std::size_t d, const S* keys, std::size_t key_stride,
                  std::span<const S> key_scales, std::size_t count, S* scores, bool relu) {
  constexpr std::size_t block = 512;  // keys at a time: they stay in the first-level caches for all heads
  const std::size_t heads = weights.size();
  std::vector<S> products(heads * std::min(block, count));
  for (std::size_t j = 0; j < count; j += block) {
    const std::size_t some = std::min(block, count - j);
    product_into(queries, d, heads, keys + j * key_stride, key_stride, some, d, products.data(), some);
    std::fill_n(scores + j, some, S{0});
    for (std::size_t h = 0; h < heads; ++h) {
      for (std::size_t i = 0; i < some; ++i) {
        const S product = products[h * some + i];
        scores[j + i] += weights[h] * (relu && product < 0 ? S{0} : product);  // NaN stays NaN
      }
    }
    if (key_scales.empty()) continue;
    for (std::size_t i = 0; i < some; ++i) scores[j + i] *= key_scales[j + i];
  }
}

template void index_scores(const float*, std::span<const float>, std::size_t, const float*, std::size_t,
                           std::span<const float>, std::size_t, float*, bool);
template void index_scores(const double*, std::span<const double>, std::size_t, const double*, std::size_t,
                           std::span<const double>, std::size_t, double*, bool);

}  // namespace mtpcheck
