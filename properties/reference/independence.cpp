// What a row of the head may depend on: its own sequence's earlier rows, and nothing else. To the bit.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "properties/reference/random_head.h"
#include "reference/head/reference_head.h"

namespace mtpcheck::properties {
namespace {

std::size_t any_length() { return static_cast<std::size_t>(*rc::gen::inRange(1, 16)); }

Precision any_precision() { return *rc::gen::element(Precision::f64, Precision::f32, Precision::bf16, Precision::f16); }

std::vector<double> logits(ReferenceHead& head, const HeadInput& input) {
  Recording recording;
  head.forward(input, {}, recording);
  return recording.values(Stage::logits);
}

RC_GTEST_PROP(ReferenceIndependence, OfLaterTokens, ()) {
  const auto config = any_config();
  const auto head =
      make_reference_head(config, random_head(config, any_seed()).weights(), {}, {.precision = any_precision()});
  const std::size_t length = any_length() + 1;
  const auto input = random_input(config, {length}, any_seed());
  const auto cut = static_cast<std::size_t>(*rc::gen::inRange<std::size_t>(1, length));
  auto all = logits(*head, input);
  head->reset();
  all.resize(cut * config.vocab_size);
  RC_ASSERT(logits(*head, rows_between(input, 0, cut)) == all);
}

RC_GTEST_PROP(ReferenceIndependence, OfOtherSequences, ()) {
  const auto config = any_config();
  const auto head =
      make_reference_head(config, random_head(config, any_seed()).weights(), {}, {.precision = any_precision()});
  const std::vector<std::size_t> lengths{any_length(), any_length(), any_length()};
  const auto input = random_input(config, lengths, any_seed());
  const auto packed = logits(*head, input);
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    head->reset();
    const auto first = static_cast<std::size_t>(input.cu_seqlens[s]);
    const auto last = static_cast<std::size_t>(input.cu_seqlens[s + 1]);
    const auto alone = logits(*head, rows_between(input, first, last));
    const auto at = packed.begin() + static_cast<std::ptrdiff_t>(first * config.vocab_size);
    RC_ASSERT(std::equal(alone.begin(), alone.end(), at));
  }
}

RC_GTEST_PROP(ReferenceIndependence, OfTheNumberOfThreads, ()) {
  const auto config = any_config();
  const auto weights = random_head(config, any_seed()).weights();
  const auto precision = any_precision();
  const auto input = random_input(config, {any_length(), any_length()}, any_seed());
  ThreadPool one(1);
  ThreadPool many(static_cast<std::size_t>(*rc::gen::inRange(2, 7)));
  const auto preset = *rc::gen::element(std::string("vllm"), std::string("transformers"));
  const auto a =
      make_reference_head(config, weights, {}, {.precision = precision, .rounding_preset = preset, .pool = &one});
  const auto b =
      make_reference_head(config, weights, {}, {.precision = precision, .rounding_preset = preset, .pool = &many});
  RC_ASSERT(logits(*a, input) == logits(*b, input));
}

// Prefill of any part, then decode in steps of any length, rejected rows in between: what is kept equals one prefill.
RC_GTEST_PROP(ReferenceIndependence, OfHowASequenceWasFed, ()) {
  const auto config = any_config();
  const auto head =
      make_reference_head(config, random_head(config, any_seed()).weights(), {}, {.precision = any_precision()});
  const std::size_t length = any_length() + 1;
  const auto input = random_input(config, {length}, any_seed());
  const auto whole = logits(*head, input);
  head->reset();
  std::vector<double> kept;
  for (std::size_t at = 0; at < length;) {
    const auto fed = static_cast<std::size_t>(*rc::gen::inRange<std::size_t>(1, length - at + 1));
    const auto accepted = static_cast<std::size_t>(*rc::gen::inRange<std::size_t>(1, fed + 1));
    // Rows after the accepted ones are drafts that the target refused: other tokens, to be forgotten.
    auto rows = rows_between(input, at, at + fed);
    for (std::size_t i = accepted; i < fed; ++i)
      rows.input_ids[i] = (rows.input_ids[i] + 1) % static_cast<std::int64_t>(config.vocab_size);
    auto step = logits(*head, rows);
    head->rollback(0, at + accepted);
    step.resize(accepted * config.vocab_size);
    kept.insert(kept.end(), step.begin(), step.end());
    at += accepted;
    RC_ASSERT(head->cached_rows(0) == at);
  }
  RC_ASSERT(kept == whole);
}

}  // namespace
}  // namespace mtpcheck::properties
