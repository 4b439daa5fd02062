#include "cuda/kernels/indexer/top_k.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "cuda/kernels/testing/rows.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {
namespace {

/// The k largest of the first `count`, the lowest index among equals, descending by index, −1 as padding.
std::vector<std::int32_t> definition(const std::vector<float>& scores, int count, int k) {
  std::vector<std::int32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    if (std::isnan(scores[a]) || std::isnan(scores[b])) return std::isnan(scores[a]) && !std::isnan(scores[b]);
    return scores[a] > scores[b];
  });
  order.resize(std::min(count, k));
  std::sort(order.rbegin(), order.rend());
  order.resize(k, -1);
  return order;
}

void check(const std::vector<std::vector<float>>& rows, int k) {
  int width = 1;
  for (const auto& row : rows) width = std::max(width, static_cast<int>(row.size()));
  std::vector<float> scores(rows.size() * width, std::numeric_limits<float>::quiet_NaN());
  std::vector<std::int32_t> counts;
  std::vector<std::int32_t> expected;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::copy(rows[r].begin(), rows[r].end(), scores.begin() + static_cast<std::ptrdiff_t>(r) * width);
    counts.push_back(static_cast<std::int32_t>(rows[r].size()));
    const auto row = definition(rows[r], counts.back(), k);
    expected.insert(expected.end(), row.begin(), row.end());
  }
  const auto device_scores = buffer_of(scores);
  const auto device_counts = buffer_of(counts);
  const Buffer<std::int32_t> indices(rows.size() * k);
  top_k(nullptr, {.rows = static_cast<int>(rows.size()),
                  .k = k,
                  .max_keys = width,
                  .scores = device_scores.data(),
                  .score_stride = width,
                  .key_counts = device_counts.data(),
                  .indices = indices.data()});
  EXPECT_EQ(indices.download(nullptr), expected) << "k = " << k << ", widest row " << width;
}

TEST(TopK, RandomRowsOfAllLengths) {
  Random random(1);
  std::normal_distribution<float> normal;
  for (const int k : {1, 4, 31, 64, 200}) {
    std::vector<std::vector<float>> rows;
    for (const int length : {0, 1, k - 1, k, k + 1, 130, 257, 1000}) {
      rows.emplace_back(length);
      for (float& score : rows.back()) score = normal(random);
    }
    check(rows, k);
  }
}

TEST(TopK, TiesGoToTheLowestIndex) {
  Random random(2);
  for (const int k : {1, 5, 64, 100}) {
    std::vector<std::vector<float>> rows;
    for (const int kinds : {1, 2, 3, 10}) {
      rows.emplace_back(300);
      for (float& score : rows.back()) score = static_cast<float>(draw(random, 0, kinds - 1)) - 1.0f;
    }
    // After a ReLU most scores are zeros, and a negative head weight makes some of them negative zeros.
    rows.emplace_back(300);
    for (float& score : rows.back()) score = draw(random, 0, 1) == 0 ? 0.0f : -0.0f;
    rows.back()[77] = std::numeric_limits<float>::denorm_min();
    rows.back()[5] = -std::numeric_limits<float>::denorm_min();
    check(rows, k);
  }
}

TEST(TopK, ValuesThatDifferInTheLastBitOnly) {
  std::vector<float> row;
  float value = 1.0f;
  for (int i = 0; i < 500; ++i) row.push_back(value = std::nextafter(value, 2.0f));
  std::vector<float> reversed(row.rbegin(), row.rend());
  for (float& score : reversed) score = -score;
  check({row, reversed}, 37);
}

TEST(TopK, InfinitiesAndNanHaveTheirPlaces) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> row(100, -infinity);
  row[10] = infinity;
  row[20] = std::numeric_limits<float>::max();
  row[30] = std::numeric_limits<float>::lowest();
  row[40] = nan;
  row[50] = -nan;
  check({row}, 1);
  check({row}, 2);
  check({row}, 3);
  check({row}, 7);
}

TEST(TopK, TwoThousandOfManyKeys) {
  Random random(3);
  std::normal_distribution<float> normal;
  std::vector<float> row(9001);
  for (float& score : row) score = std::max(0.0f, std::round(normal(random) * 64.0f) / 64.0f);
  check({row}, 2048);
}

}  // namespace
}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
