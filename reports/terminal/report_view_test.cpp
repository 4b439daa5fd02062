#include "reports/terminal/report_view.h"

#include <gtest/gtest.h>

#include <sstream>

#include "reports/schema/sample_report.h"
#include "reports/terminal/text_table.h"

namespace mtpcheck::reports {
namespace {

TEST(TextTable, AlignsByCodePointsAndKeepsColoursOut) {
  TextTable table({{"stage", TextTable::Align::left}, {"Δ"}});
  table.add({{"q"}, {"1.5", Colour::red}});
  table.add({{"router"}, {"10"}});
  EXPECT_EQ(table.render(false), "stage     Δ\nq       1.5\nrouter   10\n");
  EXPECT_NE(table.render(true).find("\033[31m1.5\033[0m"), std::string::npos);
}

TEST(ReportView, ShowsTheShareOfTheAllowance) {
  EXPECT_EQ(percent_of_allowance(0.31), "31 %");
  EXPECT_EQ(percent_of_allowance(0), "0 %");
  EXPECT_EQ(percent_of_allowance(0.001), "< 1 %");
  EXPECT_EQ(percent_of_allowance(1e300), "> 999 %");
}

TEST(ReportView, NamesStageCauseUnmatchedAndRepro) {
  const std::string text = render_report(sample_report(), false);
  EXPECT_NE(text.find("first divergent stage q_rope"), std::string::npos);
  EXPECT_NE(text.find("q_rope: the candidate matches interleaved RoPE"), std::string::npos);
  EXPECT_NE(text.find("candidate  torch f32: rope=interleaved (--candidate-rope)"), std::string::npos);
  EXPECT_NE(text.find("1 excused"), std::string::npos);
  EXPECT_NE(text.find("unmatched in the candidate: my_q (perhaps q)"), std::string::npos);
  EXPECT_NE(text.find("repro: mtpcheck compare DIR --tokens 4"), std::string::npos);
  EXPECT_EQ(text.find('\033'), std::string::npos);
}

}  // namespace
}  // namespace mtpcheck::reports
