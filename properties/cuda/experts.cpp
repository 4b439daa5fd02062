// Laws of the grouped expert products, executed on the CPU: however pairs are distributed, each gets what its expert
// alone would give it.
#include "cuda/kernels/moe/experts.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

#include "cuda/kernels/linear/linear.h"
#include "cuda/kernels/testing/rows.h"
#include "cuda/kernels/testing/weights.h"

namespace mtpcheck::cuda {
namespace {

/// How tokens choose among experts: all the same K, so that the others have none; the lowest half; or anyhow.
enum class Choice { one_set, lower_half, any };

std::vector<std::int32_t> choose(Random& random, Choice choice, int tokens, int top_k, int experts) {
  const int among = choice == Choice::lower_half ? std::max(top_k, experts / 2) : experts;
  std::vector<std::int32_t> order(experts);
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::int32_t> chosen;
  for (int t = 0; t < tokens; ++t) {
    if (t == 0 || choice != Choice::one_set) std::shuffle(order.begin(), order.begin() + among, random);
    chosen.insert(chosen.end(), order.begin(), order.begin() + top_k);
    std::sort(chosen.end() - top_k, chosen.end());
  }
  return chosen;
}

WeightView matrix_of(const WeightView& stack, int expert, bool quantised) {
  WeightView one = stack;
  const std::int64_t bytes = quantised ? 1 : 2;
  one.data = static_cast<const std::uint8_t*>(stack.data) + expert * stack.matrix_stride * bytes;
  const std::int64_t scale_bytes = stack.format == WeightFormat::e4m3_e8m0 ? 1 : 4;
  one.scales = static_cast<const std::uint8_t*>(stack.scales) + expert * stack.scale_matrix_stride * scale_bytes;
  return one;
}

RC_GTEST_PROP(ExpertLaws, EachPairGetsWhatItsExpertAloneGives, ()) {
  const auto format = *rc::gen::element(WeightFormat::bf16, WeightFormat::e4m3_f32, WeightFormat::e4m3_e8m0);
  const int tokens = *rc::gen::inRange(1, 131);
  const int experts = *rc::gen::inRange(1, 9);
  const int top_k = *rc::gen::inRange(1, std::min(experts, 3) + 1);
  const int hidden = *rc::gen::inRange(1, 100);
  const int inner = *rc::gen::inRange(1, 80);
  const auto choice = *rc::gen::element(Choice::one_set, Choice::lower_half, Choice::any);
  Random random(*rc::gen::arbitrary<std::uint32_t>());
  const auto gate = random_weights(random, format, experts, inner, hidden);
  const auto up = random_weights(random, format, experts, inner, hidden);
  const auto down = random_weights(random, format, experts, hidden, inner);
  const auto x = random_rows<__nv_bfloat16>(random, tokens, hidden);
  const auto chosen = choose(random, choice, tokens, top_k, experts);

  const int pairs = tokens * top_k;
  const auto device_chosen = buffer_of(chosen);
  const Buffer<std::int32_t> offsets(experts + 1);
  const Buffer<std::int32_t> sorted(pairs);
  const Buffer<std::int32_t> places(pairs);
  const Buffer<std::int32_t> active(experts);
  const Buffer<std::int32_t> active_count(1);
  const ExpertLists lists{offsets.data(), sorted.data(), places.data(), active.data(), active_count.data()};
  expert_dispatch(
      nullptr, {.tokens = tokens, .top_k = top_k, .experts = experts, .chosen = device_chosen.data(), .lists = lists});
  const auto act = rows_for<__nv_bfloat16>(pairs, inner);
  const auto y = rows_for<float>(pairs, hidden);
  experts_up(nullptr, {.tokens = tokens,
                       .top_k = top_k,
                       .experts = experts,
                       .lists = lists,
                       .x = x.device.data(),
                       .gate = gate.view,
                       .up = up.view,
                       .limit = 7.0f,
                       .act = act.data()});
  experts_down(nullptr, {.tokens = tokens,
                         .top_k = top_k,
                         .experts = experts,
                         .lists = lists,
                         .act = act.data(),
                         .down = down.view,
                         .y = y.data()});

  const auto together = read_rows(y, pairs, hidden);
  const auto place_of = places.download(nullptr);
  const bool quantised = format != WeightFormat::bf16;
  for (int expert = 0; expert < experts; ++expert) {
    if (std::ranges::count(chosen, expert) == 0) continue;
    // All tokens through this expert; sums have one order, so those that chose it must have the same bytes.
    const auto own_act = rows_for<__nv_bfloat16>(tokens, inner);
    const auto own_y = rows_for<float>(tokens, hidden);
    experts_up(nullptr, {.tokens = tokens,
                         .x = x.device.data(),
                         .gate = matrix_of(gate.view, expert, quantised),
                         .up = matrix_of(up.view, expert, quantised),
                         .limit = 7.0f,
                         .act = own_act.data()});
    experts_down(
        nullptr,
        {.tokens = tokens, .act = own_act.data(), .down = matrix_of(down.view, expert, quantised), .y = own_y.data()});
    const auto alone = read_rows(own_y, tokens, hidden);
    for (int pair = 0; pair < pairs; ++pair) {
      if (chosen[pair] != expert) continue;
      const auto expected = alone.begin() + static_cast<std::ptrdiff_t>(pair / top_k) * hidden;
      const auto found = together.begin() + static_cast<std::ptrdiff_t>(place_of[pair]) * hidden;
      RC_ASSERT(std::equal(found, found + hidden, expected));
    }
  }
}

}  // namespace
}  // namespace mtpcheck::cuda
