#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cuda/kernels/attention/output_gate.h"
#include "cuda/kernels/attention/sparse_attention.h"
#include "cuda/kernels/norm/latent.h"
#include "cuda/kernels/testing/close.h"
#include "cuda/kernels/testing/rows.h"
#include "reference/tensor/error.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {
namespace {

struct Case {
  std::vector<int> cached;    ///< a sequence each: keys cached before
  std::vector<int> appended;  ///< tokens of this call
  int heads;
  int kv_rank;
  int rope;
  int k = 0;  ///< 0: dense
  bool sinks = true;
  int splits = 1;
  double logit_scale = 0.3;
};

std::vector<double> padded_rows(Random& random, int rows, int kv_rank, int rope, double scale) {
  const LatentLayout layout(kv_rank, rope);
  std::normal_distribution<double> normal(0.0, scale);
  std::vector<double> values;
  for (int r = 0; r < rows; ++r) {
    for (int i = 0; i < layout.stride; ++i) {
      const bool used = i < kv_rank || (i >= layout.latent && i < layout.latent + rope);
      values.push_back(used ? normal(random) : 0.0);
    }
  }
  return values;
}

void check(const Case& c, unsigned seed) {
  SCOPED_TRACE(::testing::Message() << c.heads << " heads, rank " << c.kv_rank << ", rope " << c.rope << ", k " << c.k
                                    << ", " << c.splits << " splits, sequences "
                                    << ::testing::PrintToString(c.appended));
  Random random(seed);
  const LatentLayout layout(c.kv_rank, c.rope);
  std::vector<std::int32_t> bases;
  std::vector<std::int32_t> counts;
  int total = 0;
  for (std::size_t s = 0; s < c.cached.size(); ++s) {
    for (int i = 0; i < c.appended[s]; ++i) {
      bases.push_back(total);
      counts.push_back(c.cached[s] + i + 1);
    }
    total += c.cached[s] + c.appended[s];
  }
  const int tokens = static_cast<int>(bases.size());
  const int max_keys = *std::max_element(counts.begin(), counts.end());
  const auto query = rows_of_values<__nv_bfloat16>(
      tokens * c.heads, layout.stride, padded_rows(random, tokens * c.heads, c.kv_rank, c.rope, 1.0), layout.stride);
  const auto cache = rows_of_values<__nv_bfloat16>(total, layout.stride,
                                                   padded_rows(random, total, c.kv_rank, c.rope, 1.0), layout.stride);
  const auto sink = random_rows<float>(random, 1, c.heads);
  std::vector<std::int32_t> indices;
  for (int t = 0; t < tokens && c.k > 0; ++t) {
    std::vector<std::int32_t> all(counts[t]);
    std::iota(all.begin(), all.end(), 0);
    std::shuffle(all.begin(), all.end(), random);
    all.resize(std::min(c.k, counts[t]));
    std::sort(all.rbegin(), all.rend());
    all.resize(c.k, -1);
    indices.insert(indices.end(), all.begin(), all.end());
  }
  const auto device_bases = buffer_of(bases);
  const auto device_counts = buffer_of(counts);
  const auto device_indices = buffer_of(indices);
  const Buffer<float> partial(static_cast<std::size_t>(tokens) * c.splits * c.heads * layout.latent);
  const Buffer<float> partial_sums(static_cast<std::size_t>(tokens) * c.splits * c.heads * 2);
  const Buffer<__nv_bfloat16> out(static_cast<std::size_t>(tokens) * c.heads * layout.latent);
  const Buffer<float> probabilities(static_cast<std::size_t>(c.heads) * tokens * max_keys);
  fill_bytes(nullptr, probabilities.data(), 0, probabilities.size() * sizeof(float));
  const SparseAttention args{.tokens = tokens,
                             .heads = c.heads,
                             .kv_rank = c.kv_rank,
                             .rope = c.rope,
                             .query = query.device.data(),
                             .cache = cache.device.data(),
                             .key_bases = device_bases.data(),
                             .key_counts = device_counts.data(),
                             .indices = c.k > 0 ? device_indices.data() : nullptr,
                             .k = c.k,
                             .max_keys = max_keys,
                             .scale = static_cast<float>(c.logit_scale),
                             .sink = c.sinks ? sink.device.data() : nullptr,
                             .splits = c.splits,
                             .partial = partial.data(),
                             .partial_sums = partial_sums.data(),
                             .out = out.data()};
  sparse_attention(nullptr, args);
  attention_probabilities(nullptr, {.attention = args, .probabilities = probabilities.data()});

  std::vector<double> expected_out;
  std::vector<double> expected_probabilities(probabilities.size(), 0.0);
  double magnitude = 0;
  for (int t = 0; t < tokens; ++t) {
    std::vector<int> keys;
    for (int j = 0; j < (c.k > 0 ? c.k : counts[t]); ++j) {
      const int key = c.k > 0 ? indices[static_cast<std::size_t>(t) * c.k + j] : j;
      if (key >= 0) keys.push_back(key);
    }
    for (int h = 0; h < c.heads; ++h) {
      std::vector<double> logits;
      for (int key : keys) {
        double dot = 0;
        for (int i = 0; i < layout.stride; ++i) dot += query.at(t * c.heads + h, i) * cache.at(bases[t] + key, i);
        logits.push_back(dot * c.logit_scale);
      }
      double largest = c.sinks ? sink.at(0, h) : -std::numeric_limits<double>::infinity();
      for (double l : logits) largest = std::max(largest, l);
      double divisor = c.sinks ? std::exp(sink.at(0, h) - largest) : 0.0;
      for (double l : logits) divisor += std::exp(l - largest);
      std::vector<double> row(layout.latent, 0.0);
      std::vector<double> magnitudes(layout.latent, 0.0);
      for (std::size_t j = 0; j < keys.size(); ++j) {
        const double probability = std::exp(logits[j] - largest) / divisor;
        expected_probabilities[(static_cast<std::size_t>(h) * tokens + t) * max_keys + keys[j]] = probability;
        for (int i = 0; i < layout.latent; ++i) {
          row[i] += probability * cache.at(bases[t] + keys[j], i);
          magnitudes[i] += probability * std::abs(cache.at(bases[t] + keys[j], i));
        }
      }
      magnitude = std::max(magnitude, *std::max_element(magnitudes.begin(), magnitudes.end()));
      expected_out.insert(expected_out.end(), row.begin(), row.end());
    }
  }
  // The weights of the sum are bf16 as well.
  EXPECT_TRUE(all_close(read_rows(out, tokens * c.heads, layout.latent, layout.latent), expected_out, kBf16,
                        magnitude * kBf16));
  EXPECT_TRUE(
      all_close(read_rows(probabilities, c.heads * tokens, max_keys, max_keys), expected_probabilities, 2e-5, 1e-9));
}

TEST(SparseAttention, SelectedKeysOfPackedSequences) {
  unsigned seed = 1;
  for (const int splits : {1, 3}) {
    check({{0}, {1}, 4, 32, 8, 4, true, splits}, seed++);
    check({{5, 0, 90}, {3, 0, 2}, 4, 48, 16, 64, true, splits}, seed++);
    check({{0, 40}, {35, 1}, 2, 32, 8, 8, false, splits}, seed++);
    check({{100}, {2}, 17, 100, 6, 40, true, splits}, seed++);
    check({{200}, {1}, 64, 250, 64, 70, true, splits}, seed++);
    check({{70}, {1}, 16, 512, 64, 50, false, splits}, seed++);
    check({{40}, {2}, 33, 5, 2, 33, true, splits}, seed++);
  }
}

TEST(SparseAttention, AllKeysWhereTheLayerIsDense) {
  check({{0}, {130}, 2, 16, 4}, 20);
  check({{7, 33}, {2, 5}, 4, 32, 8, 0, false, 2}, 21);
}

TEST(SparseAttention, FewerKeysThanK) {
  check({{0, 2}, {3, 1}, 4, 32, 8, 100, true, 1}, 30);
  check({{0, 2}, {3, 1}, 4, 32, 8, 100, true, 4}, 31);
}

TEST(SparseAttention, LogitsThatOverflowWithoutTheRunningMaximum) {
  check({{150}, {1}, 4, 32, 8, 0, true, 1, 40.0}, 40);
  check({{150}, {1}, 4, 32, 8, 0, true, 2, 40.0}, 41);
}

/// A sink of −∞ takes nothing; nothing selected and only a sink gives zero.
TEST(SparseAttention, SinksAtTheirEnds) {
  const LatentLayout layout(16, 8);
  const auto query =
      rows_of_values<__nv_bfloat16>(2, layout.stride, std::vector<double>(2 * layout.stride, 0.5), layout.stride);
  const auto cache =
      rows_of_values<__nv_bfloat16>(1, layout.stride, std::vector<double>(layout.stride, 2.0), layout.stride);
  const auto sink = rows_of_values<float>(1, 2, {-std::numeric_limits<double>::infinity(), 0.0});
  const auto base = buffer_of<std::int32_t>({0});
  const auto count = buffer_of<std::int32_t>({1});
  const Buffer<__nv_bfloat16> out(2 * layout.latent);
  for (const int index : {0, -1}) {
    const auto indices = buffer_of<std::int32_t>({index, -1});
    sparse_attention(nullptr, {.tokens = 1,
                               .heads = 2,
                               .kv_rank = 16,
                               .rope = 8,
                               .query = query.device.data(),
                               .cache = cache.device.data(),
                               .key_bases = base.data(),
                               .key_counts = count.data(),
                               .indices = indices.data(),
                               .k = 2,
                               .max_keys = 1,
                               .scale = 0.0f,
                               .sink = sink.device.data(),
                               .out = out.data()});
    std::vector<double> expected(layout.latent, index == 0 ? 2.0 : 0.0);
    expected.resize(2 * layout.latent, index == 0 ? 1.0 : 0.0);
    EXPECT_TRUE(all_close(read_rows(out, 2, layout.latent, layout.latent), expected, 0, 0)) << index;
  }
}

TEST(SparseAttention, SplitsFollowTheDevice) {
  EXPECT_EQ(attention_splits(1, 64, 2048, 132), 32);
  EXPECT_EQ(attention_splits(16, 64, 2048, 132), 8);
  EXPECT_EQ(attention_splits(200, 64, 2048, 132), 1);
  EXPECT_EQ(attention_splits(1, 64, 0, 132), 1);
  EXPECT_EQ(attention_splits(0, 64, 2048, 132), 1);
}

TEST(SparseAttention, LatentsTooWideAreRefused) {
  EXPECT_THROW(sparse_attention(nullptr, {.tokens = 1, .heads = 1, .kv_rank = 513, .rope = 64}), Error);
}

TEST(OutputGate, ElementwiseAndHeadwise) {
  Random random(50);
  for (const auto& [tokens, heads, dims] : {std::tuple{1, 4, 16}, {130, 3, 5}, {2, 64, 256}, {5, 1, 9}}) {
    for (const bool headwise : {false, true}) {
      const int width = heads * dims;
      const auto attention = random_rows<__nv_bfloat16>(random, tokens, width);
      const auto gate = random_rows<__nv_bfloat16>(random, tokens, headwise ? heads : width, 4.0);
      const auto gated = rows_for<__nv_bfloat16>(tokens, width);
      output_gate(nullptr, {.tokens = tokens,
                            .heads = heads,
                            .value_dims = dims,
                            .headwise = headwise,
                            .attention = attention.device.data(),
                            .gate = gate.device.data(),
                            .gated = gated.data()});
      std::vector<double> expected;
      for (int t = 0; t < tokens; ++t) {
        for (int i = 0; i < width; ++i) {
          expected.push_back(attention.at(t, i) / (1 + std::exp(-gate.at(t, headwise ? i / dims : i))));
        }
      }
      EXPECT_TRUE(all_close(read_rows(gated, tokens, width), expected, kBf16, 1e-30));
    }
  }
}

}  // namespace
}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
