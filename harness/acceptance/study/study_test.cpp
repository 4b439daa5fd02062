#include "harness/acceptance/study/study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "harness/acceptance/study/toy_head.h"
#include "reference/protocol/distribution.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

// P(drafts 1 … k accepted | context), exactly: Σ over tokens of Π min(p, q).
double exact_reach(const Tokens& context, std::size_t depth) {
  const auto p = distribution(logits_of(context, kTarget));
  const auto q = distribution(logits_of(Tokens(context.begin() + 1, context.end()), kDraft));
  double sum = 0;
  for (std::size_t token = 0; token < kVocabulary; ++token) {
    Tokens next = context;
    next.push_back(static_cast<std::int64_t>(token));
    sum += std::min(p[token], q[token]) * (depth == 1 ? 1.0 : exact_reach(next, depth - 1));
  }
  return sum;
}

// E Z² of the estimator by its formula: Σ over prefixes of Π min(p, q) · min(1, q/p), times the last A².
double exact_second_moment(const Tokens& context, std::size_t depth) {
  const auto p = distribution(logits_of(context, kTarget));
  const auto q = distribution(logits_of(Tokens(context.begin() + 1, context.end()), kDraft));
  if (depth == 1) {
    const double acceptance = expected_acceptance(p, q);
    return acceptance * acceptance;
  }
  double sum = 0;
  for (std::size_t token = 0; token < kVocabulary; ++token) {
    Tokens next = context;
    next.push_back(static_cast<std::int64_t>(token));
    sum += std::min(p[token], q[token]) * std::min(1.0, q[token] / p[token]) * exact_second_moment(next, depth - 1);
  }
  return sum;
}

// Calls visit(tokens, probability) for every continuation of `context` by `count` tokens of the target.
void for_each_continuation(const Tokens& context, std::size_t count, double probability,
                           const std::function<void(const Tokens&, double)>& visit) {
  if (count == 0) return visit(context, probability);
  const auto p = distribution(logits_of(context, kTarget));
  for (std::size_t token = 0; token < kVocabulary; ++token) {
    Tokens next = context;
    next.push_back(static_cast<std::int64_t>(token));
    for_each_continuation(next, count - 1, probability * p[token], visit);
  }
}

// The estimator is unbiased: its mean over every trace that the target can sample, weighted by the trace's probability,
// is the probability that rejection sampling accepts k drafts, and its variance is what the documentation says. By
// enumeration, no sampling.
TEST(Study, ReachIsUnbiasedByEnumeration) {
  constexpr std::size_t kDepth = 3;
  const Tokens prompt{0, 2, 1};
  std::vector<double> mean(kDepth, 0.0);
  std::vector<double> square(kDepth, 0.0);
  for_each_continuation(prompt, kDepth + 1, 1.0, [&](const Tokens& tokens, double probability) {
    ToyHead head;
    const std::vector<TargetTrace> traces{make_trace(tokens, TraceOrigin::sampled, prompt.size())};
    const auto result = study(head, traces, {.depth = kDepth});
    const auto& row = result.rows.front();
    ASSERT_EQ(row.row, prompt.size() - 2);
    for (std::size_t k = 0; k < kDepth; ++k) {
      mean[k] += probability * row.depths[k].reach;
      square[k] += probability * row.depths[k].reach * row.depths[k].reach;
    }
  });
  for (std::size_t k = 0; k < kDepth; ++k) {
    EXPECT_NEAR(mean[k], exact_reach(prompt, k + 1), 1e-6) << "depth " << k + 1;
    EXPECT_NEAR(square[k], exact_second_moment(prompt, k + 1), 1e-6) << "depth " << k + 1;
    EXPECT_LE(square[k], mean[k]) << "the coin of rejection sampling varies more";
  }
}

// On the target's own greedy text, walking the tree of drafts by hand gives the same accepted lengths.
TEST(Study, GreedyAcceptanceIsExactOnAGreedyTrace) {
  Tokens tokens{1, 0, 2};
  while (tokens.size() < 40) tokens.push_back(static_cast<std::int64_t>(argmax(logits_of(tokens, kTarget))));
  ToyHead head;
  const std::vector<TargetTrace> traces{make_trace(tokens, TraceOrigin::greedy, 3)};
  const auto result = study(head, traces, {.depth = 3});
  ASSERT_EQ(result.rows.size(), 40U - 3 - 1 - 1);
  double accepted = 0;
  for (const auto& row : result.rows) {
    Tokens context = prefix(tokens, row.row + 2);
    std::size_t expected = 0;
    while (expected < 3) {
      const auto draft =
          static_cast<std::int64_t>(argmax(logits_of(Tokens(context.begin() + 1, context.end()), kDraft)));
      if (draft != static_cast<std::int64_t>(argmax(logits_of(context, kTarget)))) break;
      context.push_back(draft);
      ++expected;
    }
    EXPECT_EQ(row.accepted_greedily(), expected) << "row " << row.row;
    accepted += static_cast<double>(expected);
  }
  EXPECT_DOUBLE_EQ(result.mean_acceptance_length_greedy(), 1 + accepted / static_cast<double>(result.rows.size()));
  EXPECT_TRUE(result.depths[2].greedy_sound);
  EXPECT_FALSE(result.depths[2].expected_sound);
}

TEST(Study, NaturalTextIsSoundAtDepthOneOnly) {
  const std::vector<TargetTrace> traces{make_trace({0, 1, 2, 0, 1, 2, 1, 1}, TraceOrigin::natural, 0)};
  ToyHead head;
  const auto result = study(head, traces, {.depth = 2});
  EXPECT_TRUE(result.depths[0].greedy_sound && result.depths[0].expected_sound);
  EXPECT_FALSE(result.depths[1].greedy_sound || result.depths[1].expected_sound);
  EXPECT_FALSE(result.depths[1].greedy_note.empty());
  EXPECT_EQ(result.rows.size(), 7U);
}

// Several sequences of different lengths in one pass give what each gives alone.
TEST(Study, SequencesDoNotDisturbOneAnother) {
  const Tokens a{0, 1, 2, 0, 1, 2, 1, 1, 0, 0};
  const Tokens b{2, 2, 1, 0, 1, 2};
  const std::vector<TargetTrace> both{make_trace(a, TraceOrigin::sampled, 2), make_trace(b, TraceOrigin::sampled, 2)};
  ToyHead head;
  const auto together = study(head, both, {.depth = 3, .block_rows = 4});
  std::size_t at = 0;
  for (const auto& trace : both) {
    const auto alone = study(head, std::span(&trace, 1), {.depth = 3});
    for (const auto& row : alone.rows) {
      ASSERT_EQ(together.rows[at].row, row.row);
      for (std::size_t k = 0; k < row.depths.size(); ++k) {
        EXPECT_EQ(together.rows[at].depths[k].reach, row.depths[k].reach);
      }
      ++at;
    }
  }
  EXPECT_EQ(at, together.rows.size());
}

// The bounds of a top-N trace contain the truth, and close as N reaches the vocabulary.
TEST(Study, TopNBoundsContainTheTruth) {
  const Tokens tokens{0, 1, 2, 0, 1, 2, 1, 1, 0, 0};
  const std::vector<TargetTrace> whole{make_trace(tokens, TraceOrigin::sampled, 2)};
  ToyHead head;
  const auto truth = study(head, whole, {.depth = 3});
  for (std::size_t n = 1; n <= kVocabulary; ++n) {
    auto trace = whole.front();
    trace.top_n = n;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto p = distribution(trace.logits_of(i).values());
      std::vector<std::int32_t> order{0, 1, 2};
      std::ranges::sort(
          order, [&](auto x, auto y) { return p[static_cast<std::size_t>(x)] > p[static_cast<std::size_t>(y)]; });
      for (std::size_t rank = 0; rank < n; ++rank) {
        trace.top_ids.push_back(order[rank]);
        trace.top_log_probabilities.push_back(static_cast<float>(std::log(p[static_cast<std::size_t>(order[rank])])));
      }
    }
    check_trace(trace, 1, kVocabulary);
    const auto bounded = study(head, std::span(&trace, 1), {.depth = 3});
    for (std::size_t r = 0; r < truth.rows.size(); ++r) {
      for (std::size_t k = 0; k < 3; ++k) {
        const auto& bound = bounded.rows[r].depths[k];
        const double exact = truth.rows[r].depths[k].reach;
        EXPECT_LE(bound.reach_low, exact + 1e-6);
        EXPECT_GE(bound.reach_high, exact - 1e-6);
        EXPECT_LE(bound.reach_high - bound.reach_low, n == kVocabulary ? 1e-6 : 1.0);
      }
    }
  }
}

TEST(Study, NothingIsDraftedAfterTheEndOfASequence) {
  const std::vector<TargetTrace> traces{make_trace({2, 0, 1, 1, 2, 1, 1, 0, 1, 0, 1, 1}, TraceOrigin::sampled, 2)};
  ToyHead head;
  const auto result = study(head, traces, {.depth = 3, .eos = {2, 7}});
  ASSERT_EQ(result.rows.size(), 3U);  // the prompt's own end-of-sequence token ends nothing
  for (const auto& row : result.rows) {
    ASSERT_LT(row.row + 1, 4U);  // no chain starts at or after the end
    EXPECT_LE(row.row + 1 + row.depths.size(), 4U) << "row " << row.row;
  }
}

TEST(CompareSequences, AHeadDoesNotDifferFromItself) {
  const std::vector<TargetTrace> traces{make_trace({0, 1, 2, 0, 1, 2, 1, 1}, TraceOrigin::natural, 0)};
  ToyHead head;
  const auto once = study(head, traces, {.depth = 1});
  const auto difference = compare_sequences(once.sequences, once.sequences, 1).front();
  EXPECT_EQ(difference.greedy, 0.0);
  EXPECT_EQ(difference.expected, 0.0);
  EXPECT_EQ(difference.expected_p, 1.0);
}

void expect_refused(const TargetTrace& trace, const std::string& needle) {
  try {
    check_trace(trace, 1, kVocabulary);
    FAIL() << "accepted; expected: " << needle;
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::input);
    EXPECT_THAT(error.what(), testing::HasSubstr(needle));
  }
}

TEST(CheckTrace, NamesSequenceAndPositionOfWhatIsWrong) {
  const TargetTrace good = make_trace({0, 1, 2, 0, 1}, TraceOrigin::natural, 0);
  check_trace(good, 1, kVocabulary);

  auto vocabulary = good;
  vocabulary.input_ids[3] = 7;
  expect_refused(vocabulary, "toy: input_ids[3] is 7");

  auto shifted = good;
  shifted.positions[2] = 5;
  expect_refused(shifted, "positions[2] is 5 after 1");

  auto nan = good;
  auto owned = std::make_shared<Tensor>(Tensor{Dtype::f32, good.target_logits.shape, {}});
  owned->bytes.assign(good.target_logits.bytes.begin(), good.target_logits.bytes.end());
  const float bad = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(owned->bytes.data() + (2 * kVocabulary + 1) * sizeof(float), &bad, sizeof(float));
  nan.target_logits = owned->view();
  expect_refused(nan, "target_logits at position 2, token 1 is nan");

  auto mass = good;
  mass.top_n = 2;
  for (std::size_t i = 0; i < 5; ++i) {
    mass.top_ids.insert(mass.top_ids.end(), {0, 1});
    mass.top_log_probabilities.insert(mass.top_log_probabilities.end(), {std::log(0.7F), std::log(0.6F)});
  }
  expect_refused(mass, "probabilities at position 0 sum to 1.3");
}

}  // namespace
}  // namespace mtpcheck
