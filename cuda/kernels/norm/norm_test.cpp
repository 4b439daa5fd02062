#include <gtest/gtest.h>

#include <cmath>

#include "cuda/kernels/norm/add_rms_norm.h"
#include "cuda/kernels/norm/embed_concat.h"
#include "cuda/kernels/norm/latent.h"
#include "cuda/kernels/norm/query_rope.h"
#include "cuda/kernels/testing/close.h"
#include "cuda/kernels/testing/rope_table.h"
#include "cuda/kernels/testing/rows.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {
namespace {

/// x / √(mean x² + eps) · w of one row.
std::vector<double> rms_norm(const std::vector<double>& x, const std::vector<double>& w, double eps) {
  double squares = 0;
  for (double v : x) squares += v * v;
  std::vector<double> y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    y.push_back(x[i] / std::sqrt(squares / static_cast<double>(x.size()) + eps) * w[i]);
  }
  return y;
}

template <class T>
std::vector<double> row_of(const Rows<T>& rows, int row, int first, int count) {
  const auto begin = rows.values.begin() + static_cast<std::ptrdiff_t>(row) * rows.width + first;
  return {begin, begin + count};
}

void append(std::vector<double>& to, const std::vector<double>& values) {
  to.insert(to.end(), values.begin(), values.end());
}

struct Shape {
  int tokens;
  int width;
};

const Shape kShapes[] = {{1, 1}, {1, 64}, {3, 7}, {2, 255}, {130, 24}, {17, 256}, {2, 6144}, {5, 4100}};

TEST(Norm, AddRmsNorm) {
  Random random(1);
  for (const auto& [tokens, width] : kShapes) {
    for (const bool with_residual : {false, true}) {
      const auto x = random_rows<__nv_bfloat16>(random, tokens, width);
      const auto residual = random_rows<__nv_bfloat16>(random, tokens, width);
      const auto weight = random_rows<float>(random, 1, width);
      const auto sum = rows_for<__nv_bfloat16>(tokens, width);
      const auto y = rows_for<__nv_bfloat16>(tokens, width);
      add_rms_norm(nullptr, {.rows = tokens,
                             .width = width,
                             .x = x.device.data(),
                             .residual = with_residual ? residual.device.data() : nullptr,
                             .weight = weight.device.data(),
                             .eps = 1e-5f,
                             .sum = sum.data(),
                             .y = y.data()});
      std::vector<double> sums;
      std::vector<double> expected;
      for (int t = 0; t < tokens; ++t) {
        std::vector<double> row = row_of(x, t, 0, width);
        if (with_residual) {
          for (int i = 0; i < width; ++i) row[i] = rounded_to_bf16(row[i] + residual.at(t, i));
        }
        append(sums, row);
        append(expected, rms_norm(row, weight.values, 1e-5));
      }
      EXPECT_TRUE(all_close(read_rows(y, tokens, width), expected, kBf16, 1e-30)) << tokens << " x " << width;
      if (with_residual) {
        EXPECT_TRUE(all_close(read_rows(sum, tokens, width), sums, 0, 0)) << tokens << " x " << width;
      }
    }
  }
}

TEST(Norm, LargestAndSmallestValuesKeepTheirScale) {
  // The sum of squares of the largest still fits float32; a row of zeros gives zeros.
  for (const double value : {1e18, 1e-20, 0.0}) {
    const auto x = rows_of_values<__nv_bfloat16>(1, 40, std::vector<double>(40, value));
    const auto weight = rows_of_values<float>(1, 40, std::vector<double>(40, 2.0));
    const auto y = rows_for<__nv_bfloat16>(1, 40);
    add_rms_norm(
        nullptr,
        {.rows = 1, .width = 40, .x = x.device.data(), .weight = weight.device.data(), .eps = 1e-5f, .y = y.data()});
    EXPECT_TRUE(all_close(read_rows(y, 1, 40), rms_norm(x.values, weight.values, 1e-5), kBf16, 0)) << value;
  }
}

TEST(Norm, EmbedConcat) {
  Random random(2);
  for (const auto& [tokens, width] : kShapes) {
    for (const bool mask : {true, false}) {
      const int vocabulary = 9;
      const auto embedding = random_rows<__nv_bfloat16>(random, vocabulary, width);
      const auto hidden = random_rows<__nv_bfloat16>(random, tokens, width, 30.0);
      const auto enorm = random_rows<float>(random, 1, width);
      const auto hnorm = random_rows<float>(random, 1, width);
      std::vector<std::int32_t> ids;
      std::vector<std::int32_t> positions;
      for (int t = 0; t < tokens; ++t) {
        ids.push_back(draw(random, 0, vocabulary - 1));
        positions.push_back(draw(random, 0, 2));
      }
      positions[0] = 0;
      const auto device_ids = buffer_of(ids);
      const auto device_positions = buffer_of(positions);
      const auto out = rows_for<__nv_bfloat16>(tokens, 2 * width);
      const auto masked = rows_for<__nv_bfloat16>(tokens, width);
      embed_concat(nullptr, {.tokens = tokens,
                             .hidden = width,
                             .ids = device_ids.data(),
                             .positions = device_positions.data(),
                             .embedding = embedding.device.data(),
                             .hidden_states = hidden.device.data(),
                             .enorm = enorm.device.data(),
                             .hnorm = hnorm.device.data(),
                             .eps = 1e-5f,
                             .position_zero_mask = mask,
                             .concatenated = out.data(),
                             .embed_masked = masked.data()});
      std::vector<double> embeds;
      std::vector<double> expected;
      for (int t = 0; t < tokens; ++t) {
        std::vector<double> e = row_of(embedding, ids[t], 0, width);
        if (mask && positions[t] == 0) e.assign(width, 0.0);
        append(embeds, e);
        append(expected, rms_norm(e, enorm.values, 1e-5));
        append(expected, rms_norm(row_of(hidden, t, 0, width), hnorm.values, 1e-5));
      }
      EXPECT_TRUE(all_close(read_rows(masked, tokens, width), embeds, 0, 0)) << tokens << " x " << width;
      EXPECT_TRUE(all_close(read_rows(out, tokens, 2 * width), expected, kBf16, 1e-30)) << tokens << " x " << width;
    }
  }
}

TEST(Norm, GivenEmbeddingsAreMaskedEvenWhereTheyAreNan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto embeds = rows_of_values<__nv_bfloat16>(2, 8, std::vector<double>(16, nan));
  const auto hidden = rows_of_values<__nv_bfloat16>(2, 8, std::vector<double>(16, 1.0));
  const auto weight = rows_of_values<float>(1, 8, std::vector<double>(8, 1.0));
  const auto positions = buffer_of<std::int32_t>({0, 1});
  const auto out = rows_for<__nv_bfloat16>(2, 16);
  embed_concat(nullptr, {.tokens = 2,
                         .hidden = 8,
                         .positions = positions.data(),
                         .inputs_embeds = embeds.device.data(),
                         .hidden_states = hidden.device.data(),
                         .enorm = weight.device.data(),
                         .hnorm = weight.device.data(),
                         .eps = 0,
                         .concatenated = out.data()});
  std::vector<double> expected(8, 0.0);
  append(expected, std::vector<double>(8, 1.0));
  append(expected, std::vector<double>(8, nan));
  append(expected, std::vector<double>(8, 1.0));
  EXPECT_TRUE(all_close(read_rows(out, 2, 16), expected, 0, 0));
}

struct LatentShape {
  int tokens;
  int q_rank;
  int kv_rank;
  int rope;
};

TEST(Norm, LatentNormsWriteTheCacheRow) {
  Random random(3);
  for (const auto& [tokens, q_rank, kv_rank, rope] :
       {LatentShape{1, 32, 32, 8}, {5, 128, 48, 16}, {3, 7, 5, 2}, {130, 24, 17, 6}, {2, 2048, 512, 64}}) {
    for (const bool half_split : {false, true}) {
      const auto q_a = random_rows<__nv_bfloat16>(random, tokens, q_rank);
      const auto kv_a = random_rows<__nv_bfloat16>(random, tokens, kv_rank + rope);
      const auto q_norm = random_rows<float>(random, 1, q_rank);
      const auto kv_norm = random_rows<float>(random, 1, kv_rank);
      const TestRope table(rope, half_split, 1e7);
      std::vector<std::int32_t> positions;
      std::vector<std::int32_t> cache_rows;
      for (int t = 0; t < tokens; ++t) {
        positions.push_back(draw(random, 0, 1 << 20));
        cache_rows.push_back(tokens - 1 - t);
      }
      const LatentLayout layout(kv_rank, rope);
      const auto device_positions = buffer_of(positions);
      const auto device_rows = buffer_of(cache_rows);
      const auto q_c = rows_for<__nv_bfloat16>(tokens, q_rank);
      const Buffer<__nv_bfloat16> cache(static_cast<std::size_t>(tokens) * layout.stride);
      latent_norms(nullptr, {.tokens = tokens,
                             .q_rank = q_rank,
                             .kv_rank = kv_rank,
                             .q_a = q_a.device.data(),
                             .kv_a = kv_a.device.data(),
                             .q_norm = q_norm.device.data(),
                             .kv_norm = kv_norm.device.data(),
                             .eps = 1e-6f,
                             .positions = device_positions.data(),
                             .rope = table.table,
                             .q_c = q_c.data(),
                             .cache = cache.data(),
                             .cache_rows = device_rows.data()});
      std::vector<double> expected_q;
      std::vector<double> expected_cache;
      for (int row = 0; row < tokens; ++row) {
        append(expected_q, rms_norm(row_of(q_a, row, 0, q_rank), q_norm.values, 1e-6));
        const int t = tokens - 1 - row;
        std::vector<double> cached = rms_norm(row_of(kv_a, t, 0, kv_rank), kv_norm.values, 1e-6);
        cached.resize(layout.latent, 0.0);
        append(cached, table.rotated(row_of(kv_a, t, kv_rank, rope), positions[t]));
        cached.resize(layout.stride, 0.0);
        append(expected_cache, cached);
      }
      EXPECT_TRUE(all_close(read_rows(q_c, tokens, q_rank), expected_q, kBf16, 1e-30));
      EXPECT_TRUE(all_close(read_rows(cache, tokens, layout.stride, layout.stride), expected_cache, kBf16, 1e-6))
          << tokens << ", " << kv_rank << ", " << rope;
    }
  }
}

struct QueryShape {
  int tokens;
  int heads;
  int nope;
  int rope;
};

TEST(Norm, QueryRopeLeavesTheAbsorbedPartAlone) {
  Random random(4);
  for (const auto& [tokens, heads, nope, rope] :
       {QueryShape{1, 4, 16, 8}, {3, 1, 5, 2}, {2, 64, 192, 64}, {7, 11, 3, 34}}) {
    for (const bool half_split : {false, true}) {
      const int kv_rank = 21;
      const LatentLayout layout(kv_rank, rope);
      const auto q = random_rows<__nv_bfloat16>(random, tokens, heads * (nope + rope));
      const TestRope table(rope, half_split, 1e4);
      std::vector<std::int32_t> positions;
      for (int t = 0; t < tokens; ++t) positions.push_back(draw(random, 0, 3000));
      const auto device_positions = buffer_of(positions);
      const Buffer<__nv_bfloat16> query(static_cast<std::size_t>(tokens) * heads * layout.stride);
      fill_bytes(nullptr, query.data(), 0xFF, query.size() * sizeof(__nv_bfloat16));
      query_rope(nullptr, {.tokens = tokens,
                           .heads = heads,
                           .nope = nope,
                           .kv_rank = kv_rank,
                           .q = q.device.data(),
                           .positions = device_positions.data(),
                           .rope = table.table,
                           .query = query.data()});
      std::vector<double> expected;
      for (int t = 0; t < tokens; ++t) {
        for (int h = 0; h < heads; ++h) {
          std::vector<double> row(kv_rank, std::numeric_limits<double>::quiet_NaN());
          row.resize(layout.latent, 0.0);
          append(row, table.rotated(row_of(q, t, h * (nope + rope) + nope, rope), positions[t]));
          row.resize(layout.stride, 0.0);
          append(expected, row);
        }
      }
      EXPECT_TRUE(all_close(read_rows(query, tokens * heads, layout.stride, layout.stride), expected, kBf16, 1e-6));
    }
  }
}

}  // namespace
}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
