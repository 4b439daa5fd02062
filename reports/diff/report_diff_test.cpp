#include "reports/diff/report_diff.h"

#include <gtest/gtest.h>

#include "reference/tensor/error.h"
#include "reports/record/append.h"
#include "reports/schema/sample_report.h"

namespace mtpcheck::reports {
namespace {

TEST(ReportDiff, OfAReportWithItselfIsEmpty) {
  const ReportDiff result = diff(sample_report(), sample_report());
  EXPECT_FALSE(result.worse);
  EXPECT_TRUE(result.circumstances.empty());
  EXPECT_TRUE(result.values.empty());
  EXPECT_EQ(render_diff(result, false), "3 stages the same\n");
}

TEST(ReportDiff, NamesWhatGotWorseBrokeAndWasFixed) {
  Report after = sample_report();
  after.comparison->stages[0].cumulative.rms *= 3;
  after.comparison->stages[1].pass = true;
  after.sides[1].conventions[0].value = "half-split";
  const ReportDiff result = diff(sample_report(), after);
  EXPECT_TRUE(result.worse);
  EXPECT_EQ(result.stages[0].change, Change::worse);
  EXPECT_EQ(result.stages[1].change, Change::fixed);
  ASSERT_EQ(result.circumstances.size(), 1u);
  EXPECT_EQ(result.circumstances[0].what, "candidate.rope");
  EXPECT_EQ(diff(after, sample_report()).stages[1].change, Change::broken);
}

TEST(ReportDiff, StagesThatOneSideLacksAndCellsThatChanged) {
  Report after = sample_report();
  after.comparison->stages.pop_back();
  std::get<std::vector<double>>(after.tables[0].columns[1].values)[1] = 0.5;
  const ReportDiff result = diff(sample_report(), after);
  EXPECT_EQ(result.stages.back().change, Change::only_before);
  EXPECT_EQ(diff(after, sample_report()).stages.back().change, Change::only_after);
  ASSERT_EQ(result.values.size(), 1u);
  EXPECT_EQ(result.values[0].what, "curve[1].rate");
  EXPECT_EQ(result.values[0].after, "0.5");
}

Report accepting(double rate, std::int64_t sound = 1) {
  Report report;
  report.verb = "accept";
  report.pass = true;
  append_row(report, "acceptance", "",
             {{"series", std::string("a")},
              {"depth", std::int64_t{1}},
              {"greedy_rate", rate},
              {"greedy_low", rate - 0.01},
              {"greedy_high", rate + 0.01},
              {"greedy_sound", sound},
              {"expected_rate", 0.5},
              {"expected_low", 0.5},
              {"expected_high", 0.5},
              {"expected_sound", std::int64_t{1}}});
  return report;
}

TEST(ReportDiff, AnAcceptanceThatFellIsWorse) {
  const ReportDiff result = diff(accepting(0.9), accepting(0.8));
  EXPECT_TRUE(result.worse);
  ASSERT_EQ(result.fallen.size(), 1u);
  EXPECT_EQ(result.fallen[0].what, "acceptance a depth 1 greedy");
  EXPECT_NE(render_diff(result, false).find("worse: acceptance a depth 1 greedy fell from 0.9 to 0.8"),
            std::string::npos);
  EXPECT_FALSE(diff(accepting(0.9), accepting(0.895)).worse) << "within the interval";
  EXPECT_FALSE(diff(accepting(0.8), accepting(0.9)).worse);
  EXPECT_FALSE(diff(accepting(0.9, 0), accepting(0.8, 0)).worse) << "the traces cannot tell it";
}

TEST(ReportDiff, AnAcceptanceThatIsNotMeasuredAnyMoreIsWorse) {
  Report other = accepting(0.9);
  other.tables.front().columns.front() = {"series", "", std::vector<std::string>{"b"}};
  const ReportDiff result = diff(accepting(0.9), other);
  EXPECT_TRUE(result.worse);
  ASSERT_EQ(result.fallen.size(), 2u);
  EXPECT_EQ(result.fallen[0].what, "acceptance a depth 1 greedy");
  EXPECT_EQ(result.fallen[0].after, "absent");
}

TEST(ReportDiff, RefusesReportsOfDifferentVerbs) {
  try {
    diff(sample_report(), accepting(0.9));
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::usage);
    EXPECT_NE(std::string(error.what()).find("'compare', the later one of 'accept'"), std::string::npos);
  }
}

}  // namespace
}  // namespace mtpcheck::reports
