#include "reports/diff/report_diff.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace mtpcheck::reports
