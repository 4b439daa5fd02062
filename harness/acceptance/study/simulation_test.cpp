#include "harness/acceptance/study/simulation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/acceptance/study/study.h"
#include "harness/acceptance/study/toy_head.h"
#include "reference/protocol/distribution.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

Tokens continue_greedily(Tokens tokens, std::size_t length) {
  while (tokens.size() < length) tokens.push_back(static_cast<std::int64_t>(argmax(logits_of(tokens, kTarget))));
  return tokens;
}

Tokens continue_sampling(Tokens tokens, std::size_t length, std::uint64_t seed) {
  const RandomStream stream(seed, 5);
  while (tokens.size() < length) {
    tokens.push_back(
        static_cast<std::int64_t>(sample(distribution(logits_of(tokens, kTarget)), stream.uniform(tokens.size()))));
  }
  return tokens;
}

// The study knows the accepted length from every row; the loop must take exactly those at the rows where it starts.
TEST(Simulate, GreedyLoopTakesTheStudysAcceptedLengths) {
  const std::vector<TargetTrace> traces{make_trace(continue_greedily({1, 0, 2}, 60), TraceOrigin::greedy, 3)};
  ToyHead head;
  const auto rows = study(head, traces, {.depth = 3}).rows;
  AcceptanceCounts expected;
  std::size_t row = 1;
  while (row + 4 < traces.front().tokens()) {
    const std::size_t accepted = rows.at(row - 1).accepted_greedily();
    add_step(expected, 3, accepted);
    row += accepted + 1;
  }
  const auto counts = simulate(head, traces, {.depth = 3, .greedy = true}).front();
  EXPECT_EQ(counts.steps, expected.steps);
  EXPECT_EQ(counts.reached, expected.reached);
}

// Over many sampled traces the loop's acceptance at depth 1 and the study's mean of min(p, q) estimate one number.
TEST(Simulate, RejectionLoopAgreesWithTheStudy) {
  std::vector<TargetTrace> traces;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    traces.push_back(make_trace(continue_sampling({1, 0, 2}, 60, seed), TraceOrigin::sampled, 3));
  }
  ToyHead head;
  const auto studied = study(head, traces, {.depth = 2});
  AcceptanceCounts total;
  for (const auto& counts : simulate(head, traces, {.depth = 2, .greedy = false})) total += counts;
  const double rate = studied.depths[0].expected_rate();
  const double error = std::sqrt(rate * (1 - rate) / total.steps);
  EXPECT_NEAR(total.reached[0] / total.steps, rate, 5 * error);
}

TEST(Simulate, NaturalTextIsRefused) {
  const std::vector<TargetTrace> traces{make_trace({0, 1, 2, 0, 1}, TraceOrigin::natural, 0)};
  ToyHead head;
  EXPECT_THROW(simulate(head, traces, {.depth = 1}), Error);
}

}  // namespace
}  // namespace mtpcheck
