// Every known way of going wrong, computed on purpose by the candidate on the trained tiny-hy4: replay names a stage
// where it shows, and the likely cause explains it.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "golden/cases/tiny_hy4.h"
#include "harness/heads/opened_checkpoint.h"
#include "harness/inputs/input_file.h"
#include "harness/parity/comparison/comparison.h"
#include "harness/parity/reference_side/reference_side.h"
#include "harness/parity/trace/chain.h"
#include "reference/head/reference_head.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

using golden::kTinyHy4;
constexpr std::size_t kPassageRows = 72;  // above index_topk 64: the last rows are sparse

HeadInput first_rows(HeadInput input, std::size_t rows) {
  input.input_ids.resize(rows);
  input.positions.resize(rows);
  input.hidden_states.bytes.resize(input.hidden_states.bytes.size() / input.hidden_states.shape[0] * rows);
  input.hidden_states.shape[0] = rows;
  input.cu_seqlens = {0, static_cast<std::int64_t>(rows)};
  return input;
}

class KnownDeviations : public ::testing::Test {
 protected:
  Trace candidate(const KnownDeviation* deviation) const {
    Conventions conventions = side_.conventions;
    ReferenceOptions options;
    HeadInput input = input_;
    if (deviation != nullptr) deviation->apply(conventions, options.deviations);
    if (deviation != nullptr && deviation->feed) deviation->feed(input);
    const auto head = make_reference_head(side_.config, side_.weights, conventions, options);
    return run_chain(*head, input, 1).trace;
  }

  OpenedCheckpoint opened_ = open_for_heads(kTinyHy4 / "checkpoint-bf16");
  ReferenceSide side_{.config = opened_.config,
                      .weights = opened_.weights,
                      .conventions = resolve_conventions(opened_.mtpcheck_json, {}, {}).values,
                      .target_norm = target_norm(opened_)};
  HeadInput input_ =
      first_rows(read_head_input(kTinyHy4 / "traces/passage-00.safetensors", opened_.config), kPassageRows);
};

bool same(const Trace& a, const Trace& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& left, const auto& right) {
    return left.first == right.first && left.second.bytes == right.second.bytes;
  });
}

std::string cause_at(const reports::ComparisonRecord& record, const std::string& name) {
  for (const auto& stage : record.stages) {
    if (stage.name == name) return stage.likely_cause;
  }
  return {};
}

TEST_F(KnownDeviations, EachIsFoundWhereItShowsAndExplained) {
  const Trace clean = candidate(nullptr);
  const ReferenceRuns reference = make_reference_runs(side_, {input_});
  ComparisonOptions options;
  options.sequence_starts = input_.cu_seqlens;
  std::size_t with_effect = 0;
  for (const auto& deviation : known_deviations(side_)) {
    Trace trace;
    try {
      trace = candidate(&deviation);
    } catch (const Error&) {
      continue;  // not for this head: a transposed weight that is not square
    }
    const auto record = compare(trace, reference, options);
    if (same(trace, clean)) {
      EXPECT_TRUE(record.pass) << deviation.description << " has no effect on this input";
      continue;
    }
    const std::string& found = record.first_failing_stage_in_replay;
    if (found.empty()) {  // an effect below the allowance is none that a comparison could see
      RecordProperty("below the allowance", deviation.description);
      EXPECT_TRUE(record.pass) << deviation.description;
      continue;
    }
    ++with_effect;
    const auto stage = stage_from_name(found);
    ASSERT_TRUE(stage.has_value()) << found;
    EXPECT_NE(std::ranges::find(deviation.stages, *stage), deviation.stages.end())
        << deviation.description << " found at " << found;
    EXPECT_NE(cause_at(record, found), "") << deviation.description << " at " << found;
  }
  EXPECT_GE(with_effect, 30u);
}

/// What is fed wrongly shows in the cumulative view, with its cause, also where nothing is replayed.
TEST_F(KnownDeviations, WrongInputsAreNamedInTheCumulativeView) {
  ReferenceRuns reference = make_reference_runs(side_, {input_});
  reference.replay = nullptr;
  std::size_t found = 0;
  for (const auto& deviation : known_deviations(side_)) {
    if (!deviation.feed) continue;
    const auto record = compare(candidate(&deviation), reference, {});
    EXPECT_EQ(record.first_divergent_stage, "hnorm") << deviation.description;
    EXPECT_EQ(cause_at(record, "hnorm"), "the candidate matches " + deviation.description);
    ++found;
  }
  EXPECT_EQ(found, 3u);
}

}  // namespace
}  // namespace mtpcheck
