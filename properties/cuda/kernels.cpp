// Laws of single kernels on shapes that RapidCheck draws, executed on the CPU.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cuda/kernels/attention/sparse_attention.h"
#include "cuda/kernels/indexer/top_k.h"
#include "cuda/kernels/linear/linear.h"
#include "cuda/kernels/norm/latent.h"
#include "cuda/kernels/testing/rows.h"
#include "cuda/kernels/testing/weights.h"

namespace mtpcheck::cuda {
namespace {

Random any_random() { return Random(*rc::gen::arbitrary<std::uint32_t>()); }

/// Largest |a − b|.
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

RC_GTEST_PROP(KernelLaws, StreamedAndTiledProductsAgreeInEveryFormat, ()) {
  const auto format = *rc::gen::element(WeightFormat::bf16, WeightFormat::e4m3_f32, WeightFormat::e4m3_e8m0);
  const int tokens = *rc::gen::inRange(1, 131);
  const int rows = *rc::gen::inRange(1, 150);
  const int cols = *rc::gen::inRange(1, 200);
  const Grid grid{*rc::gen::element(1, 7, 64, 128), *rc::gen::element(5, 6, 7, 31)};
  Random random = any_random();
  const auto w = random_weights(random, format, 1, rows, cols, grid);
  const auto x = random_rows<__nv_bfloat16>(random, tokens, cols);
  // At most so many tokens at a time.
  const auto product = [&](auto kernel, int at_once) {
    const auto y = rows_for<float>(tokens, rows);
    for (int first = 0; first < tokens; first += at_once) {
      Linear p{.tokens = std::min(at_once, tokens - first),
               .x = x.device.data() + static_cast<std::ptrdiff_t>(first) * row_stride(cols),
               .x_stride = row_stride(cols),
               .segments = 1,
               .segment = {}};
      p.segment[0] = {.weight = w.view,
                      .y_f32 = y.data() + static_cast<std::ptrdiff_t>(first) * row_stride(rows),
                      .y_stride = row_stride(rows)};
      kernel(nullptr, p);
    }
    return read_rows(y, tokens, rows);
  };
  const auto streamed = product(linear_streamed, kStreamedTokens);
  double size = 0;
  for (const double v : streamed) size = std::max(size, std::abs(v));
  RC_ASSERT(distance(streamed, product(linear_tiled, tokens)) <= 2e-5 * size);
}

RC_GTEST_PROP(KernelLaws, TopKIsASortedPrefixWithTheLowestOfEqualIndices, ()) {
  const int k = *rc::gen::inRange(1, 300);
  const int kinds = *rc::gen::inRange(1, 50);
  Random random = any_random();
  std::vector<float> scores(static_cast<std::size_t>(*rc::gen::inRange(1, 1500)));
  for (float& score : scores) score = static_cast<float>(draw(random, -kinds, kinds)) * 0.37f;
  const int count = static_cast<int>(scores.size());
  std::vector<std::int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return scores[a] > scores[b]; });
  order.resize(std::min(count, k));
  std::sort(order.rbegin(), order.rend());
  order.resize(k, -1);
  const auto device_scores = buffer_of(scores);
  const auto counts = buffer_of<std::int32_t>({count});
  const Buffer<std::int32_t> indices(k);
  top_k(nullptr, {.rows = 1,
                  .k = k,
                  .max_keys = count,
                  .scores = device_scores.data(),
                  .score_stride = count,
                  .key_counts = counts.data(),
                  .indices = indices.data()});
  RC_ASSERT(indices.download(nullptr) == order);
}

RC_GTEST_PROP(KernelLaws, AttentionIsTheSameHoweverItsKeysAreSplit, ()) {
  const int heads = *rc::gen::inRange(1, 70);
  const int kv_rank = *rc::gen::inRange(1, 150);
  const int rope = 2 * *rc::gen::inRange(1, 20);
  const int keys = *rc::gen::inRange(1, 200);
  Random random = any_random();
  const LatentLayout layout(kv_rank, rope);
  const auto zero_padded = [&](int count) {
    std::normal_distribution<double> normal;
    std::vector<double> values;
    for (int i = 0; i < count * layout.stride; ++i) {
      const int column = i % layout.stride;
      const bool used = column < kv_rank || (column >= layout.latent && column < layout.latent + rope);
      values.push_back(used ? normal(random) : 0.0);
    }
    return rows_of_values<__nv_bfloat16>(count, layout.stride, values, layout.stride);
  };
  const auto query = zero_padded(heads);
  const auto cache = zero_padded(keys);
  const auto sink = random_rows<float>(random, 1, heads);
  const auto base = buffer_of<std::int32_t>({0});
  const auto count = buffer_of<std::int32_t>({keys});
  const auto run = [&](int splits) {
    const Buffer<float> partial(static_cast<std::size_t>(splits) * heads * layout.latent);
    const Buffer<float> sums(static_cast<std::size_t>(splits) * heads * 2);
    const Buffer<__nv_bfloat16> out(static_cast<std::size_t>(heads) * layout.latent);
    sparse_attention(nullptr, {.tokens = 1,
                               .heads = heads,
                               .kv_rank = kv_rank,
                               .rope = rope,
                               .query = query.device.data(),
                               .cache = cache.device.data(),
                               .key_bases = base.data(),
                               .key_counts = count.data(),
                               .max_keys = keys,
                               .scale = 0.1f,
                               .sink = sink.device.data(),
                               .splits = splits,
                               .partial = partial.data(),
                               .partial_sums = sums.data(),
                               .out = out.data()});
    return read_rows(out, heads, layout.latent, layout.latent);
  };
  // Probabilities are bf16 relative to their own split's maximum: each may round differently.
  RC_ASSERT(distance(run(1), run(*rc::gen::inRange(2, 8))) <= 0.03);
}

}  // namespace
}  // namespace mtpcheck::cuda
