// Deviations that have no effect on tiny-hy4's own rows, on inputs that are made to show them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/heads/opened_checkpoint.h"
#include "harness/inputs/random_input.h"
#include "harness/parity/comparison/comparison.h"
#include "harness/parity/reference_side/reference_side.h"
#include "harness/parity/trace/chain.h"
#include "reference/head/reference_head.h"
#include "reference/tensor/float_formats.h"

namespace mtpcheck {
namespace {

constexpr std::size_t kTokens = 24;

class ConstructedInputs : public ::testing::Test {
 protected:
  /// A candidate in float32 on `weights` with the deviation of that name, held to the definition on the same weights.
  reports::ComparisonRecord compared(const ReferenceSide& side, const HeadInput& input,
                                     const std::string& description) const {
    const auto deviations = known_deviations(side);
    const auto deviation = std::ranges::find(deviations, description, &KnownDeviation::description);
    if (deviation == deviations.end()) throw std::out_of_range(description);
    Conventions conventions = side.conventions;
    ReferenceOptions options;
    deviation->apply(conventions, options.deviations);
    const auto head = make_reference_head(side.config, side.weights, conventions, options);
    ComparisonOptions how;
    how.sequence_starts = input.cu_seqlens;
    return compare(run_chain(*head, input, 1).trace, make_reference_runs(side, {input}), how);
  }

  static void expect_named(const reports::ComparisonRecord& record, const std::string& stage,
                           const std::string& description) {
    EXPECT_FALSE(record.pass);
    EXPECT_EQ(record.first_failing_stage_in_replay, stage);
    for (const auto& one : record.stages) {
      if (one.name == stage) {
        EXPECT_EQ(one.likely_cause, "the candidate matches " + description);
      }
    }
  }

  OpenedCheckpoint opened_ = open_for_heads(MTPCHECK_GOLDEN_DIR "/tiny-hy4/checkpoint-bf16");
  ReferenceSide side_{.config = opened_.config,
                      .weights = opened_.weights,
                      .conventions = resolve_conventions(opened_.mtpcheck_json, {}, {}).values};
  HeadInput input_ = random_head_input(opened_.config, kTokens, 1);
};

/// tiny-hy4's keys have a variance of about 1, beside which an eps of 1e-5 or 1e-6 is nothing; scaled to 1e-3 it is as
/// large as the variance.
TEST_F(ConstructedInputs, TheEpsOfKNormShowsOnSmallKeys) {
  const std::string eps = "k_norm_eps = 1e-05";
  EXPECT_TRUE(compared(side_, input_, eps).pass) << "no effect on this input";
  ReferenceSide small = side_;
  Matrix& wk = small.weights.layers.front().indexer->wk;
  ASSERT_EQ(wk.dtype, Dtype::bf16);
  std::vector<std::byte> bytes(wk.rows * wk.cols * 2);
  for (std::size_t i = 0; i < wk.rows * wk.cols; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, wk.data + 2 * i, 2);
    bits = f32_to_bf16(1e-3F * bf16_to_f32(bits));
    std::memcpy(bytes.data() + 2 * i, &bits, 2);
  }
  wk.data = bytes.data();
  expect_named(compared(small, input_, eps), "indexer_k", eps);
}

TEST_F(ConstructedInputs, StagesLeftOutOfTheComparisonStillSettleSelections) {
  const auto wanted = [](Stage stage) {
    return stage != Stage::indexer_scores && stage != Stage::router_logits && stage != Stage::attn_probs;
  };
  const auto head = make_reference_head(side_.config, side_.weights, side_.conventions, {});
  const Trace trace = run_chain(*head, input_, 1, wanted).trace;
  ComparisonOptions how;
  how.sequence_starts = input_.cu_seqlens;
  const auto record = compare(trace, make_reference_runs(side_, {input_}, wanted), how);
  EXPECT_TRUE(record.pass);
  EXPECT_EQ(record.stages.size(), trace.size());
  EXPECT_EQ(std::ranges::count(record.stages, "topk_indices", &reports::StageRecord::name), 1);
  EXPECT_EQ(std::ranges::count(record.stages, "indexer_scores", &reports::StageRecord::name), 0);
}

/// One row of choices without a valid id, or with fewer than the head uses: no replay runs on it.
TEST_F(ConstructedInputs, ARowWithTooFewChoicesFailsItsStage) {
  const auto head = make_reference_head(side_.config, side_.weights, side_.conventions, {});
  const Trace whole = run_chain(*head, input_, 1).trace;
  for (const Stage choice : {Stage::topk_experts, Stage::topk_indices}) {
    for (const std::int32_t id : {-1, std::numeric_limits<std::int32_t>::min()}) {
      Trace trace = whole;
      Tensor& chosen = trace.at({choice, 0, {}});
      const auto recorded = to_i64(chosen.view());
      std::vector<std::int32_t> ids(recorded.begin(), recorded.end());
      std::fill_n(ids.begin() + static_cast<std::ptrdiff_t>(3 * chosen.shape.back()), chosen.shape.back(), id);
      chosen = tensor_of<std::int32_t>(chosen.shape, ids);
      for (const bool force : {false, true}) {
        ComparisonOptions how;
        how.sequence_starts = input_.cu_seqlens;
        how.force_selections = force;
        const auto record = compare(trace, make_reference_runs(side_, {input_}), how);
        EXPECT_FALSE(record.pass);
        EXPECT_EQ(record.first_divergent_stage, to_string(StageKey{choice, 0, {}}));
        const auto failed = std::ranges::count(record.stages, false, &reports::StageRecord::pass);
        EXPECT_EQ(failed, 1) << to_string(StageKey{choice, 0, {}}) << " " << id;
      }
    }
  }
}

/// A bias of the best expert left out that brings it to within its own rounding to bf16 of the last one chosen.
std::optional<std::pair<std::size_t, float>> bias_at_the_edge(const ReferenceSide& side, const Tensor& router_logits,
                                                              std::size_t row) {
  const auto& bias = side.weights.layers.front().moe->expert_bias;
  const std::vector<double> logits = to_f64(router_logits.view());
  std::vector<std::pair<double, std::size_t>> scores;
  for (std::size_t e = 0; e < bias.size(); ++e) {
    scores.emplace_back(1 / (1 + std::exp(-logits[row * bias.size() + e])) + bias[e], e);
  }
  std::ranges::sort(scores, std::greater());
  const std::size_t chosen = side.config.num_experts_per_tok;
  const auto [left_out_score, left_out] = scores.at(chosen);
  const double tie = bias[left_out] + scores[chosen - 1].first - left_out_score;
  const double above =
      round_to_bf16(static_cast<float>(tie));  // the nearest bf16; where it is above, a bias below ties
  if (!(above > tie)) return std::nullopt;
  const double ulp = std::ldexp(1.0, std::ilogb(tie) - 7);
  const double middle = above - ulp / 2;  // from here on upwards a bias is rounded to `above`
  return std::pair{left_out, static_cast<float>(middle + 0.25 * (tie - middle))};
}

TEST_F(ConstructedInputs, ARouterBiasInBf16ShowsWhereTheMarginIsBelowItsError) {
  const std::string bf16 = "a correction bias in bf16";
  EXPECT_TRUE(compared(side_, input_, bf16).pass) << "no effect on this input";
  const auto head = make_reference_head(side_.config, side_.weights, side_.conventions, {.precision = Precision::f64});
  const Trace trace = run_chain(*head, input_, 1).trace;
  ReferenceSide edge = side_;
  for (std::size_t row = 0; row < kTokens; ++row) {
    const auto bias = bias_at_the_edge(side_, trace.at({Stage::router_logits, 0, {}}), row);
    if (!bias) continue;
    edge.weights.layers.front().moe->expert_bias[bias->first] = bias->second;
    break;
  }
  ASSERT_NE(edge.weights.layers.front().moe->expert_bias, side_.weights.layers.front().moe->expert_bias);
  expect_named(compared(edge, input_, bf16), "topk_experts", bf16);
}

/// A10: tiny-hy4's shared expert stays below the limit of its routed ones.
TEST_F(ConstructedInputs, AClampOnTheSharedExpertShowsWhereItBinds) {
  const std::string clamp = "a SwiGLU clamp on the shared expert";
  EXPECT_TRUE(compared(side_, input_, clamp).pass) << "no effect on this input";
  ReferenceSide tight = side_;
  tight.config.swiglu_limit = 0.1;
  expect_named(compared(tight, input_, clamp), "shared_out", clamp);
}

/// A09: a checkpoint with YaRN, a head that reads rope_parameters as if they were of type default.
TEST_F(ConstructedInputs, YarnIgnoredShowsInTheRotatedQuery) {
  ReferenceSide yarn = side_;
  yarn.config.rope.type = "yarn";
  yarn.config.rope.factor = 4;
  yarn.config.rope.original_max_position_embeddings = 64;
  expect_named(compared(yarn, input_, "RoPE without its scaling"), "q_rope", "RoPE without its scaling");
}

}  // namespace
}  // namespace mtpcheck
