// The drafter's loop of reference/protocol, on the toy head: its logits depend on every row in its cache, and it checks
// that positions follow the cache and that each step's hidden state is the one before's, recycled.

#include <gtest/gtest.h>

#include "harness/acceptance/study/toy_head.h"
#include "reference/protocol/distribution.h"
#include "reference/protocol/drafter.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

std::int64_t first_choice(const Tokens& context) {
  return static_cast<std::int64_t>(argmax(logits_of(context, kDraft)));
}

TEST(Draft, FeedsEachDraftWithTheStepsOwnHiddenStateAtTheNextPosition) {
  const std::vector<Tokens> prefixes{{0, 1, 2, 1}, {2, 0, 1}};
  HeadInput input;
  input.cu_seqlens.push_back(0);
  for (const auto& tokens : prefixes) {
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      input.input_ids.push_back(tokens[i + 1]);
      input.positions.push_back(static_cast<std::int64_t>(i));
    }
    input.cu_seqlens.push_back(static_cast<std::int64_t>(input.positions.size()));
  }
  input.hidden_states = make_tensor(Dtype::f32, {input.tokens(), 1});
  ToyHead head;
  const DraftStep first = draft_forward(head, input);
  const std::vector<std::size_t> last_rows{2, 4};
  const std::vector<std::int64_t> last_positions{2, 1};
  std::size_t observed = 0;
  const auto drafts = draft(
      head, first, last_rows, last_positions, 3,
      [](std::size_t, std::size_t, std::span<const float> logits) { return static_cast<std::int64_t>(argmax(logits)); },
      [&](std::size_t step, const DraftStep&) { EXPECT_EQ(step, observed++); });
  EXPECT_EQ(observed, 3U);
  for (std::size_t s = 0; s < prefixes.size(); ++s) {
    Tokens context(prefixes[s].begin() + 1, prefixes[s].end());
    for (std::size_t k = 0; k < 3; ++k) {
      EXPECT_EQ(drafts[s][k], first_choice(context)) << "sequence " << s << ", draft " << k;
      context.push_back(drafts[s][k]);
    }
  }
}

TEST(PrefixRows, PairEachHiddenStateWithTheNextToken) {
  const HeadInput input = prefix_rows(Tokens{7, 8, 9}, make_tensor(Dtype::f32, {2, 4}), 10);
  EXPECT_EQ(input.input_ids, (Tokens{8, 9}));
  EXPECT_EQ(input.positions, (Tokens{10, 11}));
  EXPECT_EQ(input.cu_seqlens, (Tokens{0, 2}));
  EXPECT_THROW(prefix_rows(Tokens{7, 8}, make_tensor(Dtype::f32, {2, 4})), Error);
}

}  // namespace
}  // namespace mtpcheck
