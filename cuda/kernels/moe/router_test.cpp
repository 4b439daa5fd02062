#include "cuda/kernels/moe/router.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cuda/kernels/moe/dispatch.h"
#include "cuda/kernels/testing/close.h"
#include "cuda/kernels/testing/rows.h"
#include "reference/tensor/error.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {
namespace {

/// Indices of the `count` largest, the lowest among equals, ascending.
std::vector<int> largest(const std::vector<float>& values, int count) {
  std::vector<int> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return values[a] > values[b]; });
  order.resize(count);
  std::sort(order.begin(), order.end());
  return order;
}

struct Case {
  int tokens;
  int experts;
  int top_k;
  int groups = 1;
  int top_groups = 1;
  int distinct_logits = 0;  ///< 0: normal noise; otherwise so many different values, for ties
};

void check(const Case& c, unsigned seed, bool normalise) {
  SCOPED_TRACE(::testing::Message() << c.tokens << " tokens, " << c.top_k << " of " << c.experts << " experts, "
                                    << c.groups << " groups");
  Random random(seed);
  auto logits = random_rows<float>(random, c.tokens, c.experts, 2.0);
  auto bias = random_rows<float>(random, 1, c.experts, 0.1);
  if (c.distinct_logits > 0) {
    for (double& v : logits.values) v = draw(random, 0, c.distinct_logits - 1);
    for (double& v : bias.values) v = 0.25 * draw(random, 0, 1);
    logits = rows_of_values<float>(c.tokens, c.experts, logits.values);
    bias = rows_of_values<float>(1, c.experts, bias.values);
  }
  const Buffer<std::int32_t> chosen(static_cast<std::size_t>(c.tokens) * c.top_k);
  const Buffer<float> weights(static_cast<std::size_t>(c.tokens) * c.top_k);
  router(nullptr, {.tokens = c.tokens,
                   .experts = c.experts,
                   .top_k = c.top_k,
                   .groups = c.groups,
                   .top_groups = c.top_groups,
                   .normalise = normalise,
                   .scale = 2.827f,
                   .logits = logits.device.data(),
                   .bias = bias.device.data(),
                   .chosen = chosen.data(),
                   .weights = weights.data()});
  const auto actual_chosen = chosen.download(nullptr);
  std::vector<double> actual_weights;
  for (float w : weights.download(nullptr)) actual_weights.push_back(static_cast<double>(w));
  std::vector<double> expected_weights;
  for (int t = 0; t < c.tokens; ++t) {
    // The scores are float32 by definition, so that equal logits are equal choices.
    std::vector<float> choice;
    std::vector<double> score;
    for (int e = 0; e < c.experts; ++e) {
      const auto s = 1.0f / (1.0f + std::exp(-static_cast<float>(logits.at(t, e))));
      score.push_back(static_cast<double>(s));
      choice.push_back(s + static_cast<float>(bias.at(0, e)));
    }
    if (c.groups > 1) {
      const int size = c.experts / c.groups;
      std::vector<float> sums;
      for (int g = 0; g < c.groups; ++g) {
        std::vector<float> group(choice.begin() + g * size, choice.begin() + (g + 1) * size);
        std::sort(group.rbegin(), group.rend());
        sums.push_back(group[0] + (size > 1 ? group[1] : 0.0f));
      }
      const auto kept = largest(sums, c.top_groups);
      for (int e = 0; e < c.experts; ++e) {
        if (std::find(kept.begin(), kept.end(), e / size) == kept.end()) choice[e] = -INFINITY;
      }
    }
    const auto best = largest(choice, c.top_k);
    EXPECT_EQ(std::vector<int>(actual_chosen.begin() + t * c.top_k, actual_chosen.begin() + (t + 1) * c.top_k), best)
        << "token " << t;
    double sum = 0;
    for (int e : best) sum += score[e];
    for (int e : best) expected_weights.push_back(score[e] / (normalise ? sum + 1e-20 : 1.0) * 2.827);
  }
  EXPECT_TRUE(all_close(actual_weights, expected_weights, 1e-5, 0));
}

TEST(Router, ChoosesAndWeighs) {
  for (const bool normalise : {true, false}) {
    check({.tokens = 1, .experts = 8, .top_k = 2}, 1, normalise);
    check({.tokens = 130, .experts = 8, .top_k = 8}, 2, normalise);
    check({.tokens = 7, .experts = 256, .top_k = 8}, 3, normalise);
    check({.tokens = 5, .experts = 37, .top_k = 3}, 4, normalise);
    check({.tokens = 2, .experts = 1024, .top_k = 33}, 5, normalise);
    check({.tokens = 1, .experts = 1, .top_k = 1}, 6, normalise);
  }
}

TEST(Router, TiesGoToTheLowestIndex) {
  check({.tokens = 40, .experts = 8, .top_k = 4, .distinct_logits = 2}, 7, true);
  check({.tokens = 40, .experts = 100, .top_k = 7, .distinct_logits = 3}, 8, true);
  check({.tokens = 3, .experts = 64, .top_k = 5, .distinct_logits = 1}, 9, true);
}

TEST(Router, OnlyTheBestGroupsTakePart) {
  check({.tokens = 33, .experts = 16, .top_k = 2, .groups = 4, .top_groups = 2}, 10, true);
  check({.tokens = 9, .experts = 256, .top_k = 8, .groups = 8, .top_groups = 4}, 11, true);
  check({.tokens = 9, .experts = 12, .top_k = 3, .groups = 12, .top_groups = 5}, 12, true);
  check({.tokens = 20, .experts = 32, .top_k = 4, .groups = 8, .top_groups = 3, .distinct_logits = 2}, 13, true);
}

TEST(Router, ForcedExpertsKeepTheirOwnWeights) {
  const auto logits = rows_of_values<float>(1, 4, {0.0, 1.0, 2.0, 3.0});
  const auto bias = rows_of_values<float>(1, 4, {9.0, 0.0, 0.0, 9.0});
  const auto forced = buffer_of<std::int32_t>({2, 1});
  const Buffer<std::int32_t> chosen(2);
  const Buffer<float> weights(2);
  router(nullptr, {.tokens = 1,
                   .experts = 4,
                   .top_k = 2,
                   .logits = logits.device.data(),
                   .bias = bias.device.data(),
                   .forced = forced.data(),
                   .chosen = chosen.data(),
                   .weights = weights.data()});
  EXPECT_EQ(chosen.download(nullptr), (std::vector<std::int32_t>{1, 2}));
  const double first = 1 / (1 + std::exp(-1.0));
  const double second = 1 / (1 + std::exp(-2.0));
  EXPECT_NEAR(static_cast<double>(weights.download(nullptr)[0]), first / (first + second), 1e-6);
}

TEST(Router, ExtremeLogitsStayFinite) {
  const auto logits = rows_of_values<float>(1, 4, {-3e38, -1e4, -200.0, -100.0});
  const auto bias = rows_of_values<float>(1, 4, std::vector<double>(4, 0.0));
  const Buffer<std::int32_t> chosen(2);
  const Buffer<float> weights(2);
  router(nullptr, {.tokens = 1,
                   .experts = 4,
                   .top_k = 2,
                   .logits = logits.device.data(),
                   .bias = bias.device.data(),
                   .chosen = chosen.data(),
                   .weights = weights.data()});
  // exp(100) leaves float32, so every score is 0 or next to it: the lowest indices but for expert 3, and finite
  // weights.
  for (float w : weights.download(nullptr)) EXPECT_TRUE(std::isfinite(w));
}

TEST(Router, TooManyExpertsAreRefused) {
  EXPECT_THROW(router(nullptr, {.tokens = 1, .experts = 1025, .top_k = 1}), Error);
}

/// A stable counting sort of the pairs by expert.
void check_dispatch(int tokens, int top_k, int experts, const std::vector<std::int32_t>& chosen) {
  const int pairs = tokens * top_k;
  const auto device_chosen = buffer_of(chosen);
  const Buffer<std::int32_t> offsets(experts + 1);
  const Buffer<std::int32_t> sorted(pairs);
  const Buffer<std::int32_t> places(pairs);
  const Buffer<std::int32_t> active(std::min(experts, pairs));
  const Buffer<std::int32_t> active_count(1);
  expert_dispatch(nullptr,
                  {.tokens = tokens,
                   .top_k = top_k,
                   .experts = experts,
                   .chosen = device_chosen.data(),
                   .lists = {offsets.data(), sorted.data(), places.data(), active.data(), active_count.data()}});
  std::vector<std::int32_t> order(pairs);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return chosen[a] < chosen[b]; });
  EXPECT_EQ(sorted.download(nullptr), order);
  std::vector<std::int32_t> expected_places(pairs);
  for (int i = 0; i < pairs; ++i) expected_places[order[i]] = i;
  EXPECT_EQ(places.download(nullptr), expected_places);
  std::vector<std::int32_t> expected_offsets;
  std::vector<std::int32_t> expected_active;
  for (int e = 0; e <= experts; ++e) {
    expected_offsets.push_back(
        static_cast<std::int32_t>(std::count_if(chosen.begin(), chosen.end(), [&](int c) { return c < e; })));
    if (std::count(chosen.begin(), chosen.end(), e) > 0) expected_active.push_back(e);
  }
  EXPECT_EQ(offsets.download(nullptr), expected_offsets);
  EXPECT_EQ(active_count.download(nullptr)[0], static_cast<std::int32_t>(expected_active.size()));
  EXPECT_EQ(active.download(nullptr, 0, expected_active.size()), expected_active);
}

TEST(Dispatch, SortsPairsByExpert) {
  Random random(20);
  for (const auto& [tokens, top_k, experts] :
       {std::tuple{1, 1, 1}, {1, 2, 8}, {16, 8, 256}, {130, 2, 8}, {130, 8, 37}, {3, 4, 4}}) {
    std::vector<std::int32_t> chosen;
    for (int t = 0; t < tokens; ++t) {
      std::vector<std::int32_t> all(experts);
      std::iota(all.begin(), all.end(), 0);
      std::shuffle(all.begin(), all.end(), random);
      std::sort(all.begin(), all.begin() + top_k);
      chosen.insert(chosen.end(), all.begin(), all.begin() + top_k);
    }
    check_dispatch(tokens, top_k, experts, chosen);
  }
}

/// More pairs than a tile takes: experts go on where they stopped.
TEST(Dispatch, ManyTilesOfPairs) {
  Random random(21);
  for (const int experts : {2, 37, 300}) {
    std::vector<std::int32_t> chosen(5000);
    for (auto& expert : chosen) expert = draw(random, 0, experts - 1);
    check_dispatch(2500, 2, experts, chosen);
  }
}

TEST(Dispatch, OneExpertWithEveryToken) {
  check_dispatch(100, 1, 70, std::vector<std::int32_t>(100, 69));
  check_dispatch(100, 1, 70, std::vector<std::int32_t>(100, 0));
}

}  // namespace
}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
