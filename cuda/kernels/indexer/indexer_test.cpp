#include <gtest/gtest.h>

#include <cmath>

#include "cuda/kernels/indexer/index_key.h"
#include "cuda/kernels/indexer/index_layout.h"
#include "cuda/kernels/indexer/index_query.h"
#include "cuda/kernels/indexer/index_scores.h"
#include "cuda/kernels/testing/close.h"
#include "cuda/kernels/testing/rope_table.h"
#include "cuda/kernels/testing/rows.h"
#include "reference/tensor/error.h"
#include "reference/tensor/float_formats.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {
namespace {

/// E4M3 of each entry divided by the row's power-of-two scale.
struct Quantised {
  std::vector<double> codes;
  double scale = 1;
};

Quantised quantised(const std::vector<double>& row) {
  double largest = 1e-10;
  for (double v : row) largest = std::max(largest, std::abs(v));
  Quantised result;
  result.scale = std::exp2(std::ceil(std::log2(largest / 448.0)));
  for (double v : row) {
    result.codes.push_back(static_cast<double>(e4m3_to_f32(f32_to_e4m3(static_cast<float>(v / result.scale)))));
  }
  return result;
}

struct Shape {
  int tokens;
  int heads;
  int dims;
  int rope;
};

const Shape kShapes[] = {{1, 2, 16, 8}, {9, 2, 32, 16}, {3, 1, 11, 6}, {2, 32, 128, 64}, {20, 3, 40, 4}};

TEST(Indexer, KeysAreNormedRotatedAndCached) {
  Random random(1);
  for (const auto& [tokens, heads, dims, rope] : kShapes) {
    for (const bool fp8 : {false, true}) {
      for (const bool half_split : {false, true}) {
        const auto projected = random_rows<__nv_bfloat16>(random, tokens, dims, 3.0);
        const auto weight = random_rows<float>(random, 1, dims);
        const auto bias = random_rows<float>(random, 1, dims);
        const TestRope table(rope, half_split, 1e4);
        std::vector<std::int32_t> positions;
        std::vector<std::int32_t> cache_rows;
        for (int t = 0; t < tokens; ++t) {
          positions.push_back(draw(random, 0, 5000));
          cache_rows.push_back(t + 1);
        }
        const auto device_positions = buffer_of(positions);
        const auto device_rows = buffer_of(cache_rows);
        const int stride = index_stride(dims);
        const Buffer<__nv_bfloat16> cache(fp8 ? 0 : static_cast<std::size_t>(tokens + 1) * stride);
        const Buffer<std::uint8_t> cache_fp8(fp8 ? static_cast<std::size_t>(tokens + 1) * stride : 0);
        const Buffer<float> scales(tokens + 1);
        const auto keys = rows_for<__nv_bfloat16>(tokens, dims);
        index_key(nullptr, {.tokens = tokens,
                            .dims = dims,
                            .projected = projected.device.data(),
                            .norm_weight = weight.device.data(),
                            .norm_bias = bias.device.data(),
                            .eps = 1e-6f,
                            .positions = device_positions.data(),
                            .rope = table.table,
                            .cache_rows = device_rows.data(),
                            .cache = cache.data(),
                            .cache_fp8 = cache_fp8.data(),
                            .cache_scales = scales.data(),
                            .keys = keys.data()});
        std::vector<double> expected;
        for (int t = 0; t < tokens; ++t) {
          double mean = 0;
          for (int i = 0; i < dims; ++i) mean += projected.at(t, i) / dims;
          double variance = 0;
          for (int i = 0; i < dims; ++i) variance += std::pow(projected.at(t, i) - mean, 2) / dims;
          std::vector<double> key;
          for (int i = 0; i < dims; ++i) {
            key.push_back((projected.at(t, i) - mean) / std::sqrt(variance + 1e-6) * weight.at(0, i) + bias.at(0, i));
          }
          const auto turned = table.rotated({key.end() - rope, key.end()}, positions[t]);
          std::copy(turned.begin(), turned.end(), key.end() - rope);
          expected.insert(expected.end(), key.begin(), key.end());
        }
        const auto written = read_rows(keys, tokens, dims);
        EXPECT_TRUE(all_close(written, expected, kBf16, 2e-6)) << dims;

        // The cache holds exactly these bf16 keys, or their E4M3 codes.
        for (int t = 0; t < tokens; ++t) {
          std::vector<double> key(written.begin() + t * dims, written.begin() + (t + 1) * dims);
          std::vector<double> cached;
          if (fp8) {
            const Quantised q = quantised(key);
            key = q.codes;
            for (std::uint8_t code : cache_fp8.download(nullptr, static_cast<std::size_t>(t + 1) * stride, stride)) {
              cached.push_back(static_cast<double>(e4m3_to_f32(code)));
            }
            EXPECT_EQ(static_cast<double>(scales.download(nullptr)[t + 1]), q.scale);
          } else {
            for (auto x : cache.download(nullptr, static_cast<std::size_t>(t + 1) * stride, stride)) {
              cached.push_back(value_of(x));
            }
          }
          key.resize(stride, 0.0);
          EXPECT_EQ(cached, key);
        }
      }
    }
  }
}

TEST(Indexer, QueriesAreRotatedAndQuantised) {
  Random random(2);
  for (const auto& [tokens, heads, dims, rope] : kShapes) {
    for (const bool fp8 : {false, true}) {
      const auto q = random_rows<__nv_bfloat16>(random, tokens, heads * dims, 2.0);
      const auto raw = random_rows<float>(random, tokens, heads);
      const TestRope table(rope, fp8, 1e4);
      std::vector<std::int32_t> positions;
      for (int t = 0; t < tokens; ++t) positions.push_back(draw(random, 0, 5000));
      const auto device_positions = buffer_of(positions);
      const int stride = index_stride(dims);
      const Buffer<__nv_bfloat16> queries(static_cast<std::size_t>(tokens) * heads * stride);
      const auto weights = rows_for<float>(tokens, heads);
      const auto head_weights = rows_for<float>(tokens, heads);
      index_query(nullptr, {.tokens = tokens,
                            .heads = heads,
                            .dims = dims,
                            .q = q.device.data(),
                            .raw_weights = raw.device.data(),
                            .weight_scale = 0.25f,
                            .positions = device_positions.data(),
                            .rope = table.table,
                            .fp8 = fp8,
                            .queries = queries.data(),
                            .weights = weights.data(),
                            .head_weights = head_weights.data()});
      const auto rotated = read_rows(q.device, tokens, heads * dims);
      std::vector<double> expected = q.values;
      std::vector<double> expected_queries;
      std::vector<double> expected_weights;
      std::vector<double> expected_head_weights;
      for (int t = 0; t < tokens; ++t) {
        for (int h = 0; h < heads; ++h) {
          const auto begin = expected.begin() + (t * heads + h) * dims;
          const auto turned = table.rotated({begin + dims - rope, begin + dims}, positions[t]);
          std::copy(turned.begin(), turned.end(), begin + dims - rope);
          std::vector<double> query(rotated.begin() + (t * heads + h) * dims,
                                    rotated.begin() + (t * heads + h + 1) * dims);
          Quantised codes{query, 1.0};
          if (fp8) codes = quantised(query);
          codes.codes.resize(stride, 0.0);
          expected_queries.insert(expected_queries.end(), codes.codes.begin(), codes.codes.end());
          expected_weights.push_back(raw.at(t, h) * 0.25);
          expected_head_weights.push_back(raw.at(t, h) * 0.25 * codes.scale);
        }
      }
      EXPECT_TRUE(all_close(rotated, expected, kBf16, 1e-6));
      EXPECT_TRUE(all_close(read_rows(queries, tokens * heads, stride, stride), expected_queries, 0, 0));
      EXPECT_TRUE(all_close(read_rows(weights, tokens, heads), expected_weights, 0, 0));
      EXPECT_TRUE(all_close(read_rows(head_weights, tokens, heads), expected_head_weights, 0, 0));
    }
  }
}

/// Packed sequences, one of them empty, in one cache; tokens see the keys up to their own.
TEST(Indexer, ScoresOfPackedSequences) {
  Random random(3);
  const int sequence_tokens[] = {5, 0, 1, 18};
  const int cached_before[] = {2, 3, 140, 0};
  for (const auto& [unused, heads, dims, rope] : kShapes) {
    for (const bool fp8 : {false, true}) {
      const int stride = index_stride(dims);
      std::vector<std::int32_t> bases;
      std::vector<std::int32_t> counts;
      int total = 0;
      for (int s = 0; s < 4; ++s) {
        for (int i = 0; i < sequence_tokens[s]; ++i) {
          bases.push_back(total);
          counts.push_back(cached_before[s] + i + 1);
        }
        total += cached_before[s] + sequence_tokens[s];
      }
      const int tokens = static_cast<int>(bases.size());
      const int max_keys = *std::max_element(counts.begin(), counts.end());
      auto keys = random_rows<__nv_bfloat16>(random, total, dims, 1.0, stride);
      std::vector<std::uint8_t> codes(static_cast<std::size_t>(total) * stride, 0);
      std::vector<float> scales(total, 1.0f);
      std::vector<__nv_bfloat16> plain(static_cast<std::size_t>(total) * stride, __float2bfloat16(0.0f));
      for (int r = 0; r < total; ++r) {
        if (fp8) scales[r] = std::exp2(static_cast<float>(draw(random, -9, 3)));
        for (int i = 0; i < dims; ++i) {
          double& value = keys.values[static_cast<std::size_t>(r) * dims + i];
          codes[static_cast<std::size_t>(r) * stride + i] = f32_to_e4m3(static_cast<float>(value) * 100.0f);
          plain[static_cast<std::size_t>(r) * stride + i] = __float2bfloat16(static_cast<float>(value));
          if (fp8) {
            value = static_cast<double>(e4m3_to_f32(codes[static_cast<std::size_t>(r) * stride + i])) *
                    static_cast<double>(scales[r]);
          }
        }
      }
      std::vector<double> query_values(static_cast<std::size_t>(tokens) * heads * stride, 0.0);
      std::normal_distribution<double> normal;
      for (int i = 0; i < tokens * heads; ++i) {
        for (int j = 0; j < dims; ++j) query_values[static_cast<std::size_t>(i) * stride + j] = normal(random);
      }
      const auto queries = rows_of_values<__nv_bfloat16>(tokens * heads, stride, query_values, stride);
      const auto weights = random_rows<float>(random, tokens, heads);
      const auto device_plain = buffer_of(plain);
      const auto device_codes = buffer_of(codes);
      const auto device_scales = buffer_of(scales);
      const auto device_bases = buffer_of(bases);
      const auto device_counts = buffer_of(counts);
      const Buffer<float> scores(static_cast<std::size_t>(tokens) * max_keys);
      index_scores(nullptr, {.tokens = tokens,
                             .heads = heads,
                             .dims = dims,
                             .max_keys = max_keys,
                             .queries = queries.device.data(),
                             .head_weights = weights.device.data(),
                             .key_bases = device_bases.data(),
                             .key_counts = device_counts.data(),
                             .cache = fp8 ? nullptr : device_plain.data(),
                             .cache_fp8 = fp8 ? device_codes.data() : nullptr,
                             .cache_scales = device_scales.data(),
                             .write_masked = true,
                             .scores = scores.data(),
                             .score_stride = max_keys});
      std::vector<double> expected;
      double largest = 0;
      for (int t = 0; t < tokens; ++t) {
        for (int j = 0; j < max_keys; ++j) {
          double score = 0;
          for (int h = 0; h < heads && j < counts[t]; ++h) {
            double dot = 0;
            for (int i = 0; i < dims; ++i) dot += queries.at(t * heads + h, i) * keys.at(bases[t] + j, i);
            score += weights.at(t, h) * std::max(dot, 0.0);
          }
          largest = std::max(largest, std::abs(score));
          expected.push_back(j < counts[t] ? score : -std::numeric_limits<double>::infinity());
        }
      }
      EXPECT_TRUE(all_close(read_rows(scores, tokens, max_keys, max_keys), expected, kF32, largest * 1e-6))
          << heads << " heads of " << dims << (fp8 ? ", fp8" : "");
    }
  }
}

TEST(Indexer, KeysTooWideAreRefused) {
  EXPECT_THROW(index_scores(nullptr, {.tokens = 1, .heads = 1, .dims = 257, .max_keys = 1}), Error);
}

}  // namespace
}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
