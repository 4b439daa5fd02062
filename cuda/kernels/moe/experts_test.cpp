#include "cuda/kernels/moe/experts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "cuda/kernels/moe/combine.h"
#include "cuda/kernels/testing/close.h"
#include "cuda/kernels/testing/rows.h"
#include "cuda/kernels/testing/weights.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {
namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::bf16, WeightFormat::e4m3_f32, WeightFormat::e4m3_e8m0};

struct Shape {
  int tokens;
  int top_k;
  int experts;
  int hidden;
  int inner;
};

struct DeviceLists {
  DeviceLists(const Shape& s)
      : offsets(s.experts + 1), pairs(s.tokens * s.top_k), places(s.tokens * s.top_k), active(s.experts), count(1) {}
  ExpertLists lists() const { return {offsets.data(), pairs.data(), places.data(), active.data(), count.data()}; }
  Buffer<std::int32_t> offsets, pairs, places, active, count;
};

double clamped_swiglu(double gate, double up, double limit) {
  if (limit > 0) {
    gate = std::min(gate, limit);
    up = std::max(-limit, std::min(up, limit));
  }
  return gate / (1 + std::exp(-gate)) * up;
}

void check(bool tiled, unsigned seed, WeightFormat format, const Shape& s, const std::vector<std::int32_t>& chosen,
           double limit) {
  SCOPED_TRACE(::testing::Message() << (tiled ? "tiled, " : "streamed, ") << s.tokens << " tokens, " << s.top_k
                                    << " of " << s.experts << ", " << s.hidden << " x " << s.inner << ", format "
                                    << static_cast<int>(format));
  Random random(seed);
  const Grid grid = format == WeightFormat::e4m3_f32 ? Grid{.block_rows = 128, .column_shift = 7} : Grid{};
  const auto gate = random_weights(random, format, s.experts, s.inner, s.hidden, grid);
  const auto up = random_weights(random, format, s.experts, s.inner, s.hidden, grid);
  const auto down = random_weights(random, format, s.experts, s.hidden, s.inner, grid);
  const auto x = random_rows<__nv_bfloat16>(random, s.tokens, s.hidden);
  const auto device_chosen = buffer_of(chosen);
  const DeviceLists lists(s);
  expert_dispatch(nullptr, {.tokens = s.tokens,
                            .top_k = s.top_k,
                            .experts = s.experts,
                            .chosen = device_chosen.data(),
                            .lists = lists.lists()});
  const int pairs = s.tokens * s.top_k;
  const auto act = rows_for<__nv_bfloat16>(pairs, s.inner);
  const auto y = rows_for<float>(pairs, s.hidden);
  const ExpertsUp up_args{.tokens = s.tokens,
                          .top_k = s.top_k,
                          .experts = s.experts,
                          .lists = lists.lists(),
                          .x = x.device.data(),
                          .gate = gate.view,
                          .up = up.view,
                          .limit = static_cast<float>(limit),
                          .act = act.data()};
  const ExpertsDown down_args{.tokens = s.tokens,
                              .top_k = s.top_k,
                              .experts = s.experts,
                              .lists = lists.lists(),
                              .act = act.data(),
                              .down = down.view,
                              .y = y.data()};
  if (tiled) {
    experts_up_tiled(nullptr, up_args);
    experts_down_tiled(nullptr, down_args);
  } else {
    experts_up_streamed(nullptr, up_args);
    experts_down_streamed(nullptr, down_args);
  }

  const auto order = lists.pairs.download(nullptr);
  const auto actual_act = read_rows(act, pairs, s.inner);
  std::vector<double> expected_act;
  std::vector<double> expected_y;
  for (int place = 0; place < pairs; ++place) {
    const int token = order[place] / s.top_k;
    const int expert = chosen[order[place]];
    for (int i = 0; i < s.inner; ++i) {
      double g = 0;
      double u = 0;
      for (int c = 0; c < s.hidden; ++c) {
        g += gate.at(expert, i, c) * x.at(token, c);
        u += up.at(expert, i, c) * x.at(token, c);
      }
      expected_act.push_back(clamped_swiglu(g, u, limit));
    }
    for (int r = 0; r < s.hidden; ++r) {
      double sum = 0;
      for (int i = 0; i < s.inner; ++i) {
        sum += down.at(expert, r, i) * actual_act[static_cast<std::size_t>(place) * s.inner + i];
      }
      expected_y.push_back(sum);
    }
  }
  EXPECT_TRUE(all_close(actual_act, expected_act, kBf16, 2e-4));
  EXPECT_TRUE(all_close(read_rows(y, pairs, s.hidden), expected_y, kF32, 2e-4));
}

std::vector<std::int32_t> random_choice(Random& random, const Shape& s) {
  std::vector<std::int32_t> chosen;
  for (int t = 0; t < s.tokens; ++t) {
    std::vector<std::int32_t> all(s.experts);
    std::iota(all.begin(), all.end(), 0);
    std::shuffle(all.begin(), all.end(), random);
    std::sort(all.begin(), all.begin() + s.top_k);
    chosen.insert(chosen.end(), all.begin(), all.begin() + s.top_k);
  }
  return chosen;
}

TEST(Experts, StreamedAndTiledAgreeWithTheDefinition) {
  Random random(1);
  for (const WeightFormat format : kFormats) {
    for (const Shape& s :
         {Shape{1, 2, 8, 64, 32}, {5, 3, 7, 40, 17}, {9, 1, 3, 33, 50}, {20, 2, 4, 96, 24}, {2, 4, 4, 160, 130}}) {
      const auto chosen = random_choice(random, s);
      check(false, 2, format, s, chosen, 1.0);
      check(true, 2, format, s, chosen, 1.0);
    }
  }
}

TEST(Experts, OneExpertWithEveryTokenAndExpertsWithNone) {
  for (const bool tiled : {false, true}) {
    const Shape s{tiled ? 130 : 32, 1, 5, 32, 16};
    check(tiled, 3, WeightFormat::bf16, s, std::vector<std::int32_t>(s.tokens, 3), 0);
  }
}

TEST(Experts, ManyTokensInUnevenShares) {
  const Shape s{100, 2, 4, 24, 40};
  std::vector<std::int32_t> chosen;
  for (int t = 0; t < s.tokens; ++t) {
    chosen.push_back(t < 90 ? 0 : 1);
    chosen.push_back(t == 50 ? 2 : 3);
  }
  check(true, 4, WeightFormat::bf16, s, chosen, 0.5);
  check(true, 4, WeightFormat::e4m3_e8m0, s, chosen, 0.5);
}

/// A plain MLP is one expert with every token and no lists.
TEST(Experts, PlainMlp) {
  Random random(5);
  for (const int tokens : {1, 12, 70}) {
    const int hidden = 48;
    const int inner = 20;
    const auto gate = random_weights(random, WeightFormat::bf16, 1, inner, hidden);
    const auto up = random_weights(random, WeightFormat::bf16, 1, inner, hidden);
    const auto down = random_weights(random, WeightFormat::bf16, 1, hidden, inner);
    const auto x = random_rows<__nv_bfloat16>(random, tokens, hidden);
    const auto act = rows_for<__nv_bfloat16>(tokens, inner);
    const auto y = rows_for<float>(tokens, hidden);
    experts_up(nullptr, {.tokens = tokens, .x = x.device.data(), .gate = gate.view, .up = up.view, .act = act.data()});
    experts_down(nullptr, {.tokens = tokens, .act = act.data(), .down = down.view, .y = y.data()});
    const auto actual_act = read_rows(act, tokens, inner);
    std::vector<double> expected_act;
    std::vector<double> expected_y;
    for (int t = 0; t < tokens; ++t) {
      for (int i = 0; i < inner; ++i) {
        double g = 0;
        double u = 0;
        for (int c = 0; c < hidden; ++c) {
          g += gate.at(0, i, c) * x.at(t, c);
          u += up.at(0, i, c) * x.at(t, c);
        }
        expected_act.push_back(clamped_swiglu(g, u, 0));
      }
      for (int r = 0; r < hidden; ++r) {
        double sum = 0;
        for (int i = 0; i < inner; ++i) sum += down.at(0, r, i) * actual_act[static_cast<std::size_t>(t) * inner + i];
        expected_y.push_back(sum);
      }
    }
    EXPECT_TRUE(all_close(actual_act, expected_act, kBf16, 2e-4)) << tokens;
    EXPECT_TRUE(all_close(read_rows(y, tokens, hidden), expected_y, kF32, 2e-4)) << tokens;
  }
}

TEST(Experts, CombineAddsInOrderAndNorms) {
  Random random(6);
  for (const auto& [tokens, top_k, width] : {std::tuple{1, 2, 64}, {7, 3, 33}, {130, 1, 8}, {2, 8, 6144}, {3, 0, 40}}) {
    const auto y = random_rows<float>(random, std::max(1, tokens * top_k), width);
    const auto shared = random_rows<float>(random, tokens, width);
    const auto residual = random_rows<__nv_bfloat16>(random, tokens, width);
    const auto norm = random_rows<float>(random, 1, width);
    std::vector<std::int32_t> places(tokens * top_k);
    std::iota(places.begin(), places.end(), 0);
    std::shuffle(places.begin(), places.end(), random);
    std::vector<float> weights;
    for (int i = 0; i < tokens * top_k; ++i) weights.push_back(static_cast<float>(draw(random, 1, 99)) / 50.0f);
    const auto device_places = buffer_of(places);
    const auto device_weights = buffer_of(weights);
    const auto experts_out = rows_for<__nv_bfloat16>(tokens, width);
    const auto shared_out = rows_for<__nv_bfloat16>(tokens, width);
    const auto mlp_out = rows_for<__nv_bfloat16>(tokens, width);
    const auto residual2 = rows_for<__nv_bfloat16>(tokens, width);
    const auto normed = rows_for<__nv_bfloat16>(tokens, width);
    combine_experts(nullptr, {.tokens = tokens,
                              .top_k = top_k,
                              .width = width,
                              .y = y.device.data(),
                              .places = device_places.data(),
                              .weights = device_weights.data(),
                              .shared = shared.device.data(),
                              .residual = residual.device.data(),
                              .norm = norm.device.data(),
                              .eps = 1e-5f,
                              .experts_out = experts_out.data(),
                              .shared_out = shared_out.data(),
                              .mlp_out = mlp_out.data(),
                              .residual2 = residual2.data(),
                              .normed = normed.data()});
    std::vector<double> expected_experts;
    std::vector<double> expected_mlp;
    std::vector<double> expected_residual;
    std::vector<double> expected_normed;
    const auto actual_mlp = read_rows(mlp_out, tokens, width);
    const auto actual_residual = read_rows(residual2, tokens, width);
    for (int t = 0; t < tokens; ++t) {
      double squares = 0;
      for (int i = 0; i < width; ++i) {
        double sum = 0;
        for (int k = 0; k < top_k; ++k) {
          sum += static_cast<double>(weights[t * top_k + k]) * y.at(places[t * top_k + k], i);
        }
        expected_experts.push_back(sum);
        expected_mlp.push_back(sum + shared.at(t, i));
        expected_residual.push_back(actual_mlp[static_cast<std::size_t>(t) * width + i] + residual.at(t, i));
        squares += std::pow(actual_residual[static_cast<std::size_t>(t) * width + i], 2);
      }
      for (int i = 0; i < width; ++i) {
        expected_normed.push_back(actual_residual[static_cast<std::size_t>(t) * width + i] /
                                  std::sqrt(squares / width + 1e-5) * norm.at(0, i));
      }
    }
    EXPECT_TRUE(all_close(read_rows(experts_out, tokens, width), expected_experts, kBf16, 1e-5));
    EXPECT_TRUE(all_close(read_rows(shared_out, tokens, width), shared.values, kBf16, 0));
    EXPECT_TRUE(all_close(actual_mlp, expected_mlp, kBf16, 1e-5));
    EXPECT_TRUE(all_close(actual_residual, expected_residual, kBf16, 1e-30));
    EXPECT_TRUE(all_close(read_rows(normed, tokens, width), expected_normed, kBf16, 1e-30));
  }
}

}  // namespace
}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
