#include "harness/parity/comparison/comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "harness/parity/metrics/selection.h"

namespace mtpcheck {
namespace {

constexpr double kNotCausal = -std::numeric_limits<double>::infinity();

/// A head of four stages over three rows and three keys: scores, the two best keys of each row, attn_out as the mean of
/// the values of the chosen keys, and gated = 2 · attn_out.
struct FourStages {
  std::vector<double> scores = {1.0, kNotCausal, kNotCausal, 0.5, 2.0, kNotCausal, 0.5, 0.5 + 1e-9, 3.0};
  std::vector<double> values = {1.0, 10.0, 100.0};
  double factor = 2;
};

Tensor as(Dtype dtype, Shape shape, const std::vector<double>& values) {
  if (dtype == Dtype::f64) return tensor_of<double>(std::move(shape), std::span<const double>(values));
  const std::vector<float> narrow(values.begin(), values.end());
  return tensor_of<float>(std::move(shape), std::span<const float>(narrow));
}

Trace run(const FourStages& head, Dtype dtype, const Choices& keys) {
  Trace trace;
  std::vector<std::int32_t> padded;
  std::vector<double> out;
  for (const auto& row : keys) {
    double sum = 0;
    for (std::size_t i = 0; i < 2; ++i) {
      padded.push_back(i < row.size() ? row[i] : -1);
      if (i < row.size()) sum += head.values[static_cast<std::size_t>(row[i])] / static_cast<double>(row.size());
    }
    out.push_back(sum / 3);
  }
  trace[{Stage::indexer_scores, 0, {}}] = as(dtype, {3, 3}, head.scores);
  trace[{Stage::topk_indices, 0, {}}] = tensor_of<std::int32_t>({3, 2}, padded);
  trace[{Stage::attn_out, 0, {}}] = as(dtype, {3, 1}, out);
  for (double& value : out) value *= head.factor;
  trace[{Stage::gated, 0, {}}] = as(dtype, {3, 1}, out);
  return trace;
}

const Choices kOwnKeys = {{0}, {1, 0}, {2, 1}};
const Choices kFlippedKeys = {{0}, {1, 0}, {2, 0}};

ReferenceRuns reference_of(const FourStages& head) {
  ReferenceRuns runs;
  runs.run = [head](Dtype precision, const std::vector<Selections>& forced) {
    const bool own = forced.empty() || forced.front().topk_indices.empty();
    return run(head, precision, own ? kOwnKeys : forced.front().topk_indices);
  };
  return runs;
}

const reports::StageRecord& stage(const reports::ComparisonRecord& record, const std::string& name) {
  for (const auto& candidate : record.stages) {
    if (candidate.name == name) return candidate;
  }
  throw std::out_of_range(name);
}

TEST(Comparison, RoundingPassesAndStagesComeInOrder) {
  const auto record = compare(run({}, Dtype::f32, kOwnKeys), reference_of({}), {});
  EXPECT_TRUE(record.pass);
  EXPECT_EQ(record.first_divergent_stage, "");
  ASSERT_EQ(record.stages.size(), 4u);
  EXPECT_EQ(record.stages[1].name, "topk_indices");
  EXPECT_EQ(record.stages[1].selection->flipped_rows, 0);
  EXPECT_EQ(record.stages[2].dimensions, (std::vector<std::string>{"T", "N*v"}));
}

TEST(Comparison, AFlipWithinNoiseIsForcedOnTheReference) {
  const auto record = compare(run({}, Dtype::f32, kFlippedKeys), reference_of({}), {});
  EXPECT_TRUE(record.pass);
  EXPECT_EQ(stage(record, "topk_indices").selection->excused_rows, 1);
  EXPECT_TRUE(stage(record, "attn_out").forced);
  EXPECT_FALSE(stage(record, "indexer_scores").forced);
  EXPECT_EQ(record.notes.size(), 1u);
}

TEST(Comparison, AFlipBeyondNoiseFailsUnlessForcedAndThenOnlyItself) {
  FourStages head;
  head.scores[6] = 0.4;
  const auto record = compare(run(head, Dtype::f32, kFlippedKeys), reference_of(head), {});
  EXPECT_EQ(record.first_divergent_stage, "topk_indices");
  EXPECT_FALSE(stage(record, "attn_out").pass);
  ComparisonOptions options;
  options.force_selections = true;
  const auto forced = compare(run(head, Dtype::f32, kFlippedKeys), reference_of(head), options);
  EXPECT_FALSE(forced.pass);
  EXPECT_EQ(stage(forced, "topk_indices").selection->unexcused_rows, 1);
  EXPECT_TRUE(stage(forced, "attn_out").pass);
}

TEST(Comparison, ScoresThatAreNotComparedSettleSelectionsAllTheSame) {
  ReferenceRuns reference = reference_of({});
  reference.compared = [](Stage compared) { return compared != Stage::indexer_scores; };
  Trace candidate = run({}, Dtype::f32, kFlippedKeys);
  candidate.erase({Stage::indexer_scores, 0, {}});
  const auto record = compare(candidate, reference, {});
  EXPECT_TRUE(record.pass);
  EXPECT_TRUE(record.unmatched.empty());
  ASSERT_EQ(record.stages.size(), 3u);
  EXPECT_EQ(record.stages.front().name, "topk_indices");
  EXPECT_EQ(record.stages.front().selection->excused_rows, 1);
}

TEST(Comparison, ARowWithoutAnyKeyFailsAndIsNeverForced) {
  for (const std::int32_t id : {-1, std::numeric_limits<std::int32_t>::min()}) {
    Trace candidate = run({}, Dtype::f32, kOwnKeys);
    candidate[{Stage::topk_indices, 0, {}}] = tensor_of<std::int32_t>({3, 2}, std::vector{0, -1, id, id, 2, 1});
    ComparisonOptions options;
    options.force_selections = true;
    const auto record = compare(candidate, reference_of({}), options);
    EXPECT_FALSE(stage(record, "topk_indices").pass);
    EXPECT_EQ(stage(record, "topk_indices").selection->unexcused_rows, 1);
    EXPECT_TRUE(stage(record, "attn_out").pass);
  }
}

TEST(Comparison, NamesTheFirstStageThatDiverges) {
  FourStages wrong;
  wrong.factor = 2.001;
  const auto record = compare(run(wrong, Dtype::f32, kOwnKeys), reference_of({}), {});
  EXPECT_FALSE(record.pass);
  EXPECT_EQ(record.first_divergent_stage, "gated");
  EXPECT_NE(stage(record, "gated").reason.find("allowance"), std::string::npos);
  EXPECT_EQ(stage(record, "gated").worst.size(), 3u);
}

TEST(Comparison, WhatHasNoPartnerIsReportedAndFails) {
  Trace candidate = run({}, Dtype::f32, kOwnKeys);
  candidate.erase({Stage::gated, 0, {}});
  candidate[{Stage::logits, 0, {}}] = as(Dtype::f32, {1}, {1});
  const auto record = compare(candidate, reference_of({}), {});
  EXPECT_FALSE(record.pass);
  ASSERT_EQ(record.unmatched.size(), 2u);
  EXPECT_EQ(record.unmatched[0].name, "gated");
  EXPECT_EQ(record.unmatched[0].side, "reference");
  EXPECT_EQ(record.unmatched[1].name, "logits");
  EXPECT_TRUE(stage(record, "attn_out").pass);
  EXPECT_EQ(record.first_divergent_stage, "");
}

TEST(Comparison, AWrongShapeFailsWithBothShapes) {
  Trace candidate = run({}, Dtype::f32, kOwnKeys);
  candidate[{Stage::gated, 0, {}}] = as(Dtype::f32, {3, 2}, {1, 1, 1, 1, 1, 1});
  const auto record = compare(candidate, reference_of({}), {});
  EXPECT_EQ(stage(record, "gated").reason, "shape [3, 2], expected [3, 1]");
  EXPECT_EQ(record.first_divergent_stage, "gated");
}

TEST(Comparison, ReplayNamesTheGuiltyStageAndItsCause) {
  FourStages wrong;
  wrong.values = {1.5, 10, 100};
  wrong.factor = 3;
  ReferenceRuns reference = reference_of({});
  const auto gated_from = [](const Trace& candidate, double factor) {
    auto values = to_f64(candidate.at({Stage::attn_out, 0, {}}).view());
    for (double& value : values) value *= factor;
    return as(Dtype::f64, {3, 1}, values);
  };
  reference.replay = [&](Dtype, const Trace& candidate) {
    return Trace{{{Stage::gated, 0, {}}, gated_from(candidate, 2)}};
  };
  reference.deviations.push_back(
      {"a factor of 2.5", false, [&](const StageKey&, const Trace& candidate) { return gated_from(candidate, 2.5); }});
  reference.deviations.push_back(
      {"a factor of 3", false, [&](const StageKey&, const Trace& candidate) { return gated_from(candidate, 3); }});
  const auto record = compare(run(wrong, Dtype::f32, kOwnKeys), reference, {});
  EXPECT_EQ(record.first_divergent_stage, "attn_out");
  EXPECT_EQ(record.first_failing_stage_in_replay, "gated");
  EXPECT_EQ(stage(record, "gated").likely_cause, "the candidate matches a factor of 3");
}

TEST(Comparison, LuckOfTheRoundedReferenceIsLookedAtOnceMore) {
  const auto gated = [](double error) {
    return Trace{{{Stage::gated, 0, {}}, as(Dtype::f64, {3, 1}, {1 + error, 2, 4 + 8 * error})}};
  };
  ReferenceRuns reference;
  reference.run = [&](Dtype, const std::vector<Selections>&) { return gated(0); };  // no rounding error, by luck
  std::size_t looks = 0;
  reference.run_nearby = [&](Dtype precision, const std::vector<Selections>&, const Nearby& nearby) {
    EXPECT_EQ(nearby.stages, std::set<Stage>{Stage::gated});
    ++looks;
    return gated(precision == Dtype::f64 ? 0 : 1e-5 / static_cast<double>(nearby.sample));
  };
  const auto record = compare(gated(1e-5), reference, {});
  EXPECT_TRUE(record.pass) << stage(record, "gated").reason;
  EXPECT_EQ(looks, 16u);
  EXPECT_EQ(stage(record, "gated").cumulative.noise_samples, 9);
  EXPECT_FALSE(compare(gated(1e-4), reference, {}).pass);
  looks = 0;
  EXPECT_FALSE(compare(gated(1), reference, {}).pass);
  EXPECT_EQ(looks, 0u);  // no luck is as large as that
}

TEST(Comparison, KeepsTheTensorsItIsToldTo) {
  FourStages wrong;
  wrong.factor = 2.001;
  ComparisonOptions options;
  options.keep = Keep::failing;
  const auto record = compare(run(wrong, Dtype::f32, kOwnKeys), reference_of({}), options);
  EXPECT_TRUE(stage(record, "gated").candidate_tensor.has_value());
  EXPECT_FALSE(stage(record, "attn_out").candidate_tensor.has_value());
}

}  // namespace
}  // namespace mtpcheck
