#include "harness/gate/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/tensor/error.h"
#include "reports/record/append.h"

namespace mtpcheck {
namespace {

using testing::HasSubstr;

reports::Report report_with(double q_rope_used, double acceptance, std::vector<reports::FindingRecord> findings = {}) {
  reports::Report report;
  report.comparison = reports::ComparisonRecord{};
  reports::StageRecord stage;
  stage.name = stage.stage = "q_rope";
  stage.cumulative.allowance_used = q_rope_used;
  stage.cumulative.pass = q_rope_used <= 1;
  report.comparison->stages.push_back(stage);
  report.findings = std::move(findings);
  reports::append_row(report, "acceptance", "",
                      {{"series", std::string("a")},
                       {"depth", std::int64_t{1}},
                       {"greedy_rate", acceptance},
                       {"greedy_low", acceptance - 0.01},
                       {"greedy_high", acceptance + 0.01},
                       {"greedy_sound", std::int64_t{1}},
                       {"expected_rate", 0.5},
                       {"expected_low", 0.5},
                       {"expected_high", 0.5},
                       {"expected_sound", std::int64_t{0}}});
  return report;
}

const std::string kBaseline =
    "# a comment\n\n"
    "stage q_rope cumulative <= 0.5   # measured on two hosts\n"
    "acceptance a depth 1 greedy >= 0.90  # forty passages\n";

ItemState state_of(const GateResult& result, const std::string& item) {
  const auto found = std::ranges::find_if(result.items, [&](const GateItem& one) { return one.measured.item == item; });
  if (found == result.items.end()) ADD_FAILURE() << "no item " << item;
  return found->state;
}

TEST(Gate, HoldsAtItsOwnFigures) {
  const auto result = judge(report_with(0.5, 0.90), parse_baseline(kBaseline, "b"));
  EXPECT_TRUE(result.holds());
  EXPECT_EQ(result.items.size(), 3U);  // with `unmatched`; figures that the traces cannot tell are no items
}

TEST(Gate, AnErrorThatGrewBeyondItsLimitFailsEvenWithinTheAllowance) {
  const auto result = judge(report_with(0.6, 0.90), parse_baseline(kBaseline, "b"));
  EXPECT_FALSE(result.holds());
  EXPECT_EQ(state_of(result, "stage q_rope cumulative"), ItemState::worsened);
}

TEST(Gate, AcceptanceFailsOnlyWhenItsWholeIntervalIsBelow) {
  EXPECT_TRUE(judge(report_with(0.4, 0.895), parse_baseline(kBaseline, "b")).holds());
  EXPECT_FALSE(judge(report_with(0.4, 0.88), parse_baseline(kBaseline, "b")).holds());
}

TEST(Gate, ANewFindingFailsAKnownOneDoesNotAndAGoneOneIsFixed) {
  const reports::FindingRecord finding{"partial", "error", "w13_weight", "expert 2 is missing"};
  const auto baseline = parse_baseline(kBaseline, "b");
  EXPECT_FALSE(judge(report_with(0.5, 0.9, {finding}), baseline).holds());
  const auto known = parse_baseline(kBaseline + "finding partial w13_weight allowed # pruned on purpose\n", "b");
  EXPECT_TRUE(judge(report_with(0.5, 0.9, {finding}), known).holds());
  const auto gone = judge(report_with(0.5, 0.9), known);
  EXPECT_TRUE(gone.holds());
  EXPECT_EQ(state_of(gone, "finding partial w13_weight"), ItemState::fixed);
}

TEST(Gate, ACheckThatSilentlyStoppedFails) {
  auto report = report_with(0.5, 0.9);
  report.comparison.reset();
  EXPECT_FALSE(judge(report, parse_baseline(kBaseline, "b")).holds());
}

TEST(Gate, NotANumberNeverHolds) {
  EXPECT_FALSE(judge(report_with(std::nan(""), 0.9), parse_baseline(kBaseline, "b")).holds());
}

TEST(Gate, AnUpdateKeepsReasonsAndPassesItsOwnReport) {
  const auto report = report_with(0.71234567, 0.9512345, {{"orphan-scale", "warning", "x", "m"}});
  const auto fresh = updated(report, parse_baseline(kBaseline, "b"), "first seen");
  const auto again = parse_baseline(to_text(fresh), "b");
  EXPECT_TRUE(judge(report, again).holds());
  const auto kept = std::ranges::find(again.limits, "stage q_rope cumulative", &Limit::item);
  ASSERT_NE(kept, again.limits.end());
  EXPECT_EQ(kept->reason, "measured on two hosts");
  EXPECT_DOUBLE_EQ(kept->value, 0.784);
}

TEST(Gate, CoverageIsTheShareOfElementsThatWereWritten) {
  reports::Report report;
  report.tables.push_back({"parameters",
                           "a parameter",
                           {{"name", "", std::vector<std::string>{"whole", "half", "empty"}},
                            {"elements", "1", std::vector<std::int64_t>{4, 4, 0}},
                            {"written", "1", std::vector<std::int64_t>{4, 2, 0}}}});
  const auto all = measure(report);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].item, "coverage whole");
  EXPECT_EQ(all[0].value, 1);
  EXPECT_EQ(all[1].value, 0.5);
  EXPECT_EQ(all[2].value, 1);
}

TEST(Gate, UnmatchedTensorsFailUnlessAgreed) {
  auto report = report_with(0.5, 0.9);
  report.comparison->unmatched.push_back({"my_q", "candidate", "q"});
  const auto result = judge(report, parse_baseline(kBaseline, "b"));
  EXPECT_FALSE(result.holds());
  EXPECT_EQ(state_of(result, "unmatched"), ItemState::worsened);
  EXPECT_TRUE(judge(report, parse_baseline(kBaseline + "unmatched <= 1 # a debug tensor\n", "b")).holds());
  const auto fresh = updated(report, {}, "seen");
  EXPECT_THAT(to_text(fresh), HasSubstr("unmatched <= 1 "));
}

reports::Report report_of_engines(const std::string& verdict, std::int64_t written) {
  reports::Report report;
  const std::vector<std::string> engines{"vllm 0.33.0", "sglang 0.5.5"};
  reports::append_row(
      report, "engine_heads", "",
      {{"first", engines[0], ""}, {"second", engines[1], ""}, {"verdict", verdict, ""}, {"why", std::string(), ""}});
  for (const auto& engine : engines) {
    reports::append_row(report, "engine_parameters", "",
                        {{"name", std::string("enorm"), ""},
                         {"engine", engine, ""},
                         {"status", std::string("loaded"), ""},
                         {"elements", std::int64_t{4}},
                         {"written", engine == engines[1] ? written : std::int64_t{4}}});
  }
  return report;
}

TEST(Gate, HoldsEachEnginesCoverageAndThatTheyEndWithTheSameHead) {
  const std::string relation = "engines vllm 0.33.0 / sglang 0.5.5 same head";
  const auto agreed = parse_baseline(to_text(updated(report_of_engines("same head", 4), {}, "first seen")), "b");
  EXPECT_EQ(agreed.limits.size(), 3U);
  EXPECT_TRUE(judge(report_of_engines("same head", 4), agreed).holds());
  const auto differing = judge(report_of_engines("different heads", 4), agreed);
  EXPECT_FALSE(differing.holds());
  EXPECT_EQ(state_of(differing, relation), ItemState::worsened);
  const auto less = judge(report_of_engines("same head", 2), agreed);
  EXPECT_FALSE(less.holds());
  EXPECT_EQ(state_of(less, "coverage sglang 0.5.5 enorm"), ItemState::worsened);
  EXPECT_EQ(state_of(less, "coverage vllm 0.33.0 enorm"), ItemState::held);
  EXPECT_FALSE(judge(report_of_engines("different heads", 4), {}).holds()) << "wrong without any limit";
  EXPECT_TRUE(judge(report_of_engines("no head", 4), {}).holds()) << "what stops an engine is a finding";
}

TEST(Gate, AgreesOnFiniteFiguresOnly) {
  auto report = report_with(0.5, 0.9);
  report.comparison->stages.front().missing = true;
  EXPECT_THROW(updated(report, {}, "r"), Error);
  EXPECT_THROW(updated(report_with(std::nan(""), 0.9), {}, "r"), Error);
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_THROW(to_text({{{"stage q cumulative", Bound::at_most, infinite, "r", 0}}}), Error);
}

TEST(Gate, ALimitIsOneLine) {
  EXPECT_THROW(to_text({{{"stage q cumulative", Bound::at_most, 1, "r\nstage k cumulative <= 9 # r", 0}}}), Error);
  EXPECT_THROW(to_text({{{"finding a b\nc", Bound::allowed, 1, "r", 0}}}), Error);
}

TEST(ParseBaseline, NamesFileAndLineOfWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"\nstage q <= x # y", "file: line 2: 'x' after <=: a number was expected"},
      {"stage q <= inf # y", "file: line 1: 'inf' after <=: not finite"},
      {"stage q >= nan # y", "file: line 1: 'nan' after >=: not finite"},
      {"stage q <= 1", "has no reason"},
      {"stage q # y", "expected ITEM <= NUMBER"},
      {"stage q <= 1 # y\nstage q <= 2 # z", "file: line 2: stage q is limited twice"}};
  for (const auto& [text, message] : cases) {
    try {
      parse_baseline(text, "file");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  }
}

}  // namespace
}  // namespace mtpcheck
