// Two descriptions of one head give one result.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "properties/reference/random_head.h"
#include "reference/head/reference_head.h"

namespace mtpcheck::properties {
namespace {

Recording run(const PlainHead& head, const HeadInput& input, const Conventions& conventions = {},
              ReferenceOptions options = {.precision = Precision::f64}) {
  Recording recording;
  make_reference_head(head.config, head.weights(), conventions, std::move(options))->forward(input, {}, recording);
  return recording;
}

HeadInput any_input(const HeadConfig& config) {
  return random_input(config, {static_cast<std::size_t>(*rc::gen::inRange(1, 20))}, any_seed());
}

RC_GTEST_PROP(ReferenceEquivalences, PermutedExpertsWithTheirRouterRows, ()) {
  auto config = any_config();
  config.sparse_mlp = true;
  const auto head = random_head(config, any_seed());
  std::vector<std::size_t> order(config.n_routed_experts);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(any_seed()));
  auto permuted = head;
  for (std::size_t e = 0; e < order.size(); ++e) {
    permuted.experts[e] = head.experts[order[e]];
    permuted.bias[e] = head.bias[order[e]];
    permuted.router.row(static_cast<Eigen::Index>(e)) = head.router.row(static_cast<Eigen::Index>(order[e]));
  }
  const auto input = any_input(config);
  const auto a = run(head, input);
  const auto b = run(permuted, input);
  RC_ASSERT(distance(b.values(Stage::mlp_out), a.values(Stage::mlp_out)) <= 1e-13);
  RC_ASSERT(distance(b.values(Stage::logits), a.values(Stage::logits)) <= 1e-13);
}

RC_GTEST_PROP(ReferenceEquivalences, SinksOfMinusInfinityAreNoSinks, ()) {
  const auto config = any_config();
  auto head = random_head(config, any_seed());
  const auto input = any_input(config);
  head.sink.clear();
  const auto without = run(head, input);
  head.sink.assign(config.num_attention_heads, -std::numeric_limits<double>::infinity());
  RC_ASSERT(run(head, input).values(Stage::logits) == without.values(Stage::logits));
}

RC_GTEST_PROP(ReferenceEquivalences, AsManyKeysAsThereAreIsDenseAttention, ()) {
  auto config = any_config();
  config.sparse_attention = true;
  const auto input = any_input(config);
  config.index_topk = input.tokens() + static_cast<std::size_t>(*rc::gen::inRange(0, 5));
  const auto seed = any_seed();
  const auto sparse = run(random_head(config, seed), input);
  config.sparse_attention = false;
  const auto dense = run(random_head(config, seed), input);
  RC_ASSERT(sparse.values(Stage::attn_probs) == dense.values(Stage::attn_probs));
  RC_ASSERT(sparse.values(Stage::logits) == dense.values(Stage::logits));
}

RC_GTEST_PROP(ReferenceEquivalences, EachHalfOfEhProjActsOnItsHalfAlone, ()) {
  const auto config = any_config();
  const auto whole = random_head(config, any_seed());
  const auto input = any_input(config);
  const auto hidden = static_cast<Eigen::Index>(config.hidden_size);
  auto left = whole;
  auto right = whole;
  auto scaled = whole;
  left.eh_proj.rightCols(hidden).setZero();
  right.eh_proj.leftCols(hidden).setZero();
  scaled.eh_proj.leftCols(hidden) *= 4;
  scaled.eh_proj.rightCols(hidden) *= 0.5;
  const auto l = run(left, input).values(Stage::eh_proj);
  auto expected = run(right, input).values(Stage::eh_proj);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = 4 * l[i] + 0.5 * expected[i];
  RC_ASSERT(distance(run(scaled, input).values(Stage::eh_proj), expected) <= 1e-14);
}

/// Rows of the last `rope` of each group of `size` in the order that turns interleaved pairs into half-split ones.
template <class Values>
Values reordered(const Values& values, std::size_t size, std::size_t rope, auto&& move) {
  Values out = values;
  for (std::size_t group = 0; group < static_cast<std::size_t>(values.size()) / size; ++group) {
    const std::size_t first = group * size + size - rope;
    for (std::size_t i = 0; i < rope / 2; ++i) {
      move(out, first + i, values, first + 2 * i);
      move(out, first + rope / 2 + i, values, first + 2 * i + 1);
    }
  }
  return out;
}

Rows<float> reordered_rows(const Rows<float>& rows, std::size_t size, std::size_t rope) {
  Rows<float> out = rows;
  for (Eigen::Index group = 0; group < rows.rows() / static_cast<Eigen::Index>(size); ++group) {
    const Eigen::Index first = (group + 1) * static_cast<Eigen::Index>(size) - static_cast<Eigen::Index>(rope);
    for (Eigen::Index i = 0; i < static_cast<Eigen::Index>(rope) / 2; ++i) {
      out.row(first + i) = rows.row(first + 2 * i);
      out.row(first + static_cast<Eigen::Index>(rope) / 2 + i) = rows.row(first + 2 * i + 1);
    }
  }
  return out;
}

Vector reordered_entries(const Vector& values, std::size_t rope) {
  return reordered(values, values.size(), rope,
                   [](Vector& out, std::size_t to, const Vector& in, std::size_t from) { out[to] = in[from]; });
}

RC_GTEST_PROP(ReferenceEquivalences, PermutedRopeColumnsMapOnePairingToTheOther, ()) {
  const auto config = any_config();
  const auto head = random_head(config, any_seed());
  const auto input = any_input(config);
  const std::size_t rope = config.qk_rope_head_dim;
  auto permuted = head;
  permuted.q_b = reordered_rows(head.q_b, config.qk_nope_head_dim + rope, rope);
  permuted.kv_a = reordered_rows(head.kv_a, config.kv_lora_rank + rope, rope);
  permuted.wq_b = reordered_rows(head.wq_b, config.index_head_dim, rope);
  permuted.wk = reordered_rows(head.wk, config.index_head_dim, rope);
  permuted.k_norm_weight = reordered_entries(head.k_norm_weight, rope);
  permuted.k_norm_bias = reordered_entries(head.k_norm_bias, rope);
  Conventions half_split;
  half_split.rope = half_split.indexer_rope = RopePairing::half_split;
  const auto a = run(head, input);
  const auto b = run(permuted, input, half_split);
  RC_ASSERT(distance(b.values(Stage::attn_out), a.values(Stage::attn_out)) <= 1e-12);
  RC_ASSERT(distance(b.values(Stage::logits), a.values(Stage::logits)) <= 1e-12);
}

RC_GTEST_PROP(ReferenceEquivalences, AbsorbedAndExpandedAttentionAreOne, ()) {
  const auto config = any_config();
  const auto head = random_head(config, any_seed());
  const auto input = any_input(config);
  const auto absorbed = run(head, input);
  const auto expanded = run(head, input, {}, {.precision = Precision::f64, .rounding_preset = "transformers"});
  for (const Stage stage : {Stage::attn_probs, Stage::attn_out, Stage::logits}) {
    RC_ASSERT(distance(expanded.values(stage), absorbed.values(stage)) <= 1e-12);
  }
}

RC_GTEST_PROP(ReferenceEquivalences, EmbeddingsInsteadOfIds, ()) {
  const auto config = any_config();
  const auto head = random_head(config, any_seed());
  auto input = any_input(config);
  const auto by_ids = run(head, input);
  std::vector<float> embeds;
  for (const auto id : input.input_ids) {
    const Row<float> row = head.embed.row(id);
    embeds.insert(embeds.end(), row.data(), row.data() + row.size());
  }
  input.inputs_embeds = tensor_of<float>({input.tokens(), config.hidden_size}, embeds);
  input.input_ids.clear();
  RC_ASSERT(run(head, input).values(Stage::logits) == by_ids.values(Stage::logits));
}

}  // namespace
}  // namespace mtpcheck::properties
