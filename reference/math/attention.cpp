#include "reference/math/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "reference/linear/linear.h"
#include "reference/math/sums.h"

namespace mtpcheck {
namespace {

// Keys are gathered in blocks of this many: the product kernel's own block, so that blocks add up in its order.
template <class S>
constexpr std::size_t kKeyBlock = 4096 / sizeof(S);

template <class S>
void gather(const S* from, std::size_t stride, std::size_t width, std::span<const std::int32_t> rows, S* to) {
  for (const auto row : rows) to = std::copy_n(from + static_cast<std::size_t>(row) * stride, width, to);
}

template <class S>
void gather_transposed(const S* from, std::size_t stride, std::size_t width, std::span<const std::int32_t> rows,
                       S* to) {
  for (std::size_t j = 0; j < rows.size(); ++j) {
    const S* const row = from + static_cast<std::size_t>(rows[j]) * stride;
    for (std::size_t c = 0; c < width; ++c) to[c * rows.size() + j] = row[c];
  }
}

}  // namespace

template <class S>
S softmax_exponentials(S* logits, std::size_t count, std::optional<S> sink) {
  S top = sink.value_or(-std::numeric_limits<S>::infinity());
  for (std::size_t j = 0; j < count; ++j) top = logits[j] > top ? logits[j] : top;
  if (top == -std::numeric_limits<S>::infinity()) top = 0;  // all masked: every exponential is 0
  for (std::size_t j = 0; j < count; ++j) logits[j] = std::exp(logits[j] - top);
  const S sum = ordered_sum<S>(count, [logits](std::size_t j) { return logits[j]; });
  return sink ? sum + std::exp(*sink - top) : sum;
}

template <class S>
void attend(const Attention<S>& a, S* out, std::size_t out_stride, S* probabilities) {
  const std::size_t keys = a.selected.size();
  const auto& rounding = a.rounding;
  std::vector<S> weights(a.heads * keys);
  std::vector<S> sums(a.heads);
  std::vector<S> block(kKeyBlock<S> * std::max(a.width, a.value_width));

  for (std::size_t j = 0; j < keys; j += kKeyBlock<S>) {
    const auto some = a.selected.subspan(j, std::min(kKeyBlock<S>, keys - j));
    gather(a.keys, a.key_stride, a.width, some, block.data());
    product_into(a.queries, a.query_stride, a.heads, block.data(), a.width, some.size(), a.width, weights.data() + j,
                 keys);
  }
  for (std::size_t h = 0; h < a.heads; ++h) {
    S* const row = weights.data() + h * keys;
    if (rounding.logits) round_all(rounding.format, row, keys);
    for (std::size_t j = 0; j < keys; ++j) row[j] *= a.scale;
    if (rounding.logits) round_all(rounding.format, row, keys);
    sums[h] = softmax_exponentials(row, keys, a.sinks.empty() ? std::nullopt : std::optional<S>(a.sinks[h]));
    if (rounding.exponential) {
      round_all(rounding.format, row, keys);
    } else if (sums[h] != 0) {
      for (std::size_t j = 0; j < keys; ++j) row[j] /= sums[h];
      if (rounding.normalised) round_all(rounding.format, row, keys);
    }
    if (probabilities == nullptr) continue;
    const S divisor = rounding.exponential && sums[h] != 0 ? sums[h] : S{1};
    for (std::size_t j = 0; j < keys; ++j) probabilities[h * keys + j] = row[j] / divisor;
  }
  for (std::size_t h = 0; h < a.heads; ++h) std::fill_n(out + h * out_stride, a.value_width, S{0});
  std::vector<S> part(a.heads * a.value_width);
  for (std::size_t j = 0; j < keys; j += kKeyBlock<S>) {
    const auto some = a.selected.subspan(j, std::min(kKeyBlock<S>, keys - j));
    gather_transposed(a.values, a.value_stride, a.value_width, some, block.data());
    product_into(weights.data() + j, keys, a.heads, block.data(), some.size(), a.value_width, some.size(), part.data(),
                 a.value_width);
    for (std::size_t h = 0; h < a.heads; ++h) {
      for (std::size_t c = 0; c < a.value_width; ++c) out[h * out_stride + c] += part[h * a.value_width + c];
    }
  }
  if (!rounding.exponential) return;
  for (std::size_t h = 0; h < a.heads; ++h) {
    if (sums[h] == 0) continue;
    for (std::size_t c = 0; c < a.value_width; ++c) out[h * out_stride + c] /= sums[h];
  }
}

template float softmax_exponentials(float*, std::size_t, std::optional<float>);
template double softmax_exponentials(double*, std::size_t, std::optional<double>);
template void attend(const Attention<float>&, float*, std::size_t, float*);
template void attend(const Attention<double>&, double*, std::size_t, double*);

}  // namespace mtpcheck
