#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "golden/cases/forward_case.h"
#include "reference/head/reference_head.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

using golden::KeepingSink;
using golden::Tensors;
using ::testing::HasSubstr;

const golden::ForwardCase& sparse_case() {
  static const auto from =
      golden::read_forward_case(std::filesystem::path(MTPCHECK_GOLDEN_DIR) / "forward", "topk_below_seq");
  return from;
}

Tensors forward(ReferenceHead& head, const HeadInput& input, const ForwardOptions& options = {}) {
  KeepingSink sink;
  head.forward(input, options, sink);
  return sink.stages;
}

std::unique_ptr<ReferenceHead> engine_like_head() {
  return make_reference_head(sparse_case().config, sparse_case().weights, {},
                             {.precision = Precision::f32, .own_topk_buffer = false});
}

template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::input);
    return error.what();
  }
  return "no error";
}

TEST(Protocol, ASparseHeadWithoutABufferSaysWhatToCallFirst) {
  const auto head = engine_like_head();
  EXPECT_THAT(error_of([&] { forward(*head, sparse_case().input()); }), HasSubstr("call set_topk_indices_buffer()"));
  head->set_topk_indices_buffer(std::make_shared<TopkIndicesBuffer>(3));
  EXPECT_THAT(error_of([&] { forward(*head, sparse_case().input()); }), HasSubstr("16 rows"));
  EXPECT_EQ(head->cached_rows(0), 0U);
}

TEST(Protocol, StepsShareTheKeysOfTheFirst) {
  const auto input = sparse_case().input();
  const auto buffer = std::make_shared<TopkIndicesBuffer>(32);
  const auto head = engine_like_head();
  head->set_topk_indices_buffer(buffer);
  forward(*head, rows_between(input, 0, 10));
  EXPECT_EQ(buffer->rows[0], (std::vector<std::int32_t>{0}));
  EXPECT_EQ(buffer->rows[9].size(), sparse_case().config.index_topk);

  const auto last = buffer->rows[9];
  head->compact_topk_indices(std::vector<std::size_t>{9});
  EXPECT_EQ(buffer->rows[0], last);
  head->set_skip_topk(true);
  const auto second = forward(*head, rows_between(input, 10, 11), {.step = 1});
  EXPECT_FALSE(second.contains("step1.indexer_scores"));
  const auto used = to_i64(second.at("step1.topk_indices").view());
  EXPECT_TRUE(std::equal(last.rbegin(), last.rend(), used.begin()));
  EXPECT_EQ(buffer->rows[0], last) << "a step that skips the indexer leaves the buffer alone";

  // The skipped row has no index key: the indexer may only run again once the row is rolled back.
  head->set_skip_topk(false);
  EXPECT_THAT(error_of([&] { forward(*head, rows_between(input, 11, 12)); }), HasSubstr("back to 10 rows"));
  head->rollback(0, 10);
  const auto again = forward(*head, rows_between(input, 10, 12));
  head->reset();
  const auto whole = forward(*head, rows_between(input, 0, 12));
  const auto logits = to_f32(whole.at("logits").view());
  const auto tail = to_f32(again.at("logits").view());
  EXPECT_TRUE(std::equal(tail.begin(), tail.end(), logits.end() - static_cast<std::ptrdiff_t>(tail.size())));
}

TEST(Protocol, CompactingIsAGather) {
  const auto buffer = std::make_shared<TopkIndicesBuffer>(4);
  buffer->rows = {{0}, {1}, {2}, {3}};
  const auto head = engine_like_head();
  head->set_topk_indices_buffer(buffer);
  head->compact_topk_indices(std::vector<std::size_t>{1, 0, 3});
  EXPECT_EQ(buffer->rows, (std::vector<std::vector<std::int32_t>>{{1}, {0}, {3}, {3}}));
  EXPECT_THAT(error_of([&] { head->compact_topk_indices(std::vector<std::size_t>{4}); }), HasSubstr("slot 4"));
}

TEST(Protocol, LayersTakeTurnsAndKeepTheirOwnCaches) {
  auto weights = sparse_case().weights;
  weights.layers.push_back(weights.layers.front());
  for (auto& w : weights.layers[1].enorm) w *= 3;
  const auto head = make_reference_head(sparse_case().config, weights, {}, {.precision = Precision::f64});
  const auto input = sparse_case().input();
  const auto logits = [&](std::size_t index) {
    return forward(*head, input, {.spec_step_idx = index}).at("logits").bytes;
  };
  const auto first = logits(0);
  const auto second = logits(1);
  EXPECT_NE(first, second);
  head->reset();
  EXPECT_EQ(logits(3), second) << "3 is layer 1 of 2, whose cache was empty";
  EXPECT_EQ(logits(2), first);
  head->rollback(0, 0);
  EXPECT_EQ(logits(4), first);
}

TEST(Protocol, RollbackForgetsAndRefusesWhatIsNotThere) {
  const auto head = engine_like_head();
  head->set_topk_indices_buffer(std::make_shared<TopkIndicesBuffer>(16));
  forward(*head, sparse_case().input());
  EXPECT_THAT(error_of([&] { head->rollback(0, 17); }), HasSubstr("16 are cached"));
  EXPECT_THAT(error_of([&] { head->rollback(1, 1); }), HasSubstr("0 are cached"));
  head->rollback(0, 5);
  EXPECT_EQ(head->cached_rows(0), 5U);
}

TEST(Protocol, BatchesThatDoNotFitAreRefusedAndLeaveTheCachesAlone) {
  const auto head = make_reference_head(sparse_case().config, sparse_case().weights, {});
  const auto input = sparse_case().input();
  forward(*head, rows_between(input, 0, 4));
  const auto refused = [&](auto change) {
    auto bad = rows_between(input, 4, 8);
    change(bad);
    const auto message = error_of([&] { forward(*head, bad); });
    EXPECT_EQ(head->cached_rows(0), 4U);
    return message;
  };
  EXPECT_THAT(refused([](HeadInput& bad) { bad.input_ids[1] = 97; }), HasSubstr("token 97; the vocabulary has 97"));
  EXPECT_THAT(refused([](HeadInput& bad) { bad.positions[2] = -1; }), HasSubstr("row 2 has position -1"));
  EXPECT_THAT(refused([](HeadInput& bad) { bad.cu_seqlens = {0, 3}; }), HasSubstr("cu_seqlens"));
  EXPECT_THAT(refused([](HeadInput& bad) { bad.cu_seqlens = {0, 2, 4}; }), HasSubstr("2 sequences"));
  EXPECT_THAT(refused([](HeadInput& bad) { bad.hidden_states.shape[1] = 63; }), HasSubstr("hidden_states is [4, 63]"));
  Selections forced;
  forced.topk_indices.assign(4, {99});
  EXPECT_THAT(error_of([&] { forward(*head, rows_between(input, 4, 8), {.forced = &forced}); }), HasSubstr("key 99"));
  EXPECT_EQ(head->cached_rows(0), 4U) << "rows appended before the failure are taken back";
}

TEST(Protocol, WeightsThatDoNotFitAreNamed) {
  auto weights = sparse_case().weights;
  weights.layers[0].o_proj.rows -= 1;
  EXPECT_THAT(error_of([&] { make_reference_head(sparse_case().config, weights, {}); }),
              HasSubstr("o_proj) is [63, 64]"));
  weights = sparse_case().weights;
  weights.layers[0].moe->experts.pop_back();
  EXPECT_THAT(error_of([&] { make_reference_head(sparse_case().config, weights, {}); }), HasSubstr("7 experts"));
}

// A hundred thousand keys behind four rows: scores, choice and attention in blocks.
TEST(Protocol, AHundredThousandKeys) {
  constexpr std::size_t keys = 100000;
  const auto& from = sparse_case();
  const auto& c = from.config;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const auto rows = [&](std::size_t count, std::size_t width) {
    std::vector<float> values(count * width);
    for (auto& value : values) value = normal(random);
    return tensor_of<float>({count, width}, values);
  };
  const auto kv_c = rows(keys, c.kv_lora_rank);
  const auto k_pe = rows(keys, c.qk_rope_head_dim);
  const auto index_k = rows(keys, c.index_head_dim);
  const auto input = rows_between(from.input(), 0, 4);
  const auto head = make_reference_head(c, from.weights, {}, {.precision = Precision::f32});
  const auto own = forward(*head, input);
  const RecordedStages recorded = [&](const StageKey& key) { return std::optional(own.at(to_string(key)).view()); };
  const ReplayOptions options{.past = {{kv_c.view("kv_c"), k_pe.view("k_pe"), index_k.view("indexer_k")}}};
  const auto scores = head->replay(Stage::indexer_scores, input, recorded, options);
  EXPECT_EQ(scores.at(0).value.shape, (Shape{4, keys + 4}));
  const RecordedStages without_scores = [&](const StageKey& key) -> std::optional<TensorView> {
    if (key.stage == Stage::indexer_scores) return std::nullopt;
    return own.at(to_string(key)).view();
  };
  const auto chosen = head->replay(Stage::topk_indices, input, without_scores, options);
  const auto values = to_f32(scores.at(0).value.view());
  const auto ids = to_i64(chosen.at(0).value.view());
  ASSERT_EQ(ids.size(), 4 * c.index_topk);
  for (std::size_t row = 0; row < 4; ++row) {
    const auto* const at = values.data() + row * (keys + 4);
    std::vector<float> sorted(at, at + keys + 4);
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(c.index_topk) - 1, sorted.end(),
                     std::greater<>());
    for (std::size_t k = 0; k < c.index_topk; ++k) {
      EXPECT_GE(at[ids[row * c.index_topk + k]], sorted[c.index_topk - 1]);
    }
  }
}

}  // namespace
}  // namespace mtpcheck
