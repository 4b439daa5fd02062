#include "reports/html/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reports/html/heat.h"
#include "reports/schema/sample_report.h"

namespace mtpcheck::reports {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ToHtml, IsOneFileWithoutAnyAddressToFetch) {
  const std::string page = to_html(sample_report());
  EXPECT_THAT(page, HasSubstr("<!doctype html>"));
  EXPECT_THAT(page, Not(HasSubstr("src=\"http")));
  EXPECT_THAT(page, Not(HasSubstr("@import")));
  EXPECT_THAT(page, HasSubstr("How to read these curves"));
  for (const char* mark : {"@CSS@", "@JS@", "@REPORT@"}) EXPECT_THAT(page, Not(HasSubstr(mark)));
}

// A name from a checkpoint is data: it must not be able to close the script element that carries it.
TEST(ToHtml, TextOfTheReportCannotEndItsScript) {
  Report report = sample_report();
  report.findings.push_back({"unknown-tensor", "error", "</script><script>alert(1)</script>", "<!-- x"});
  const std::string page = to_html(report);
  EXPECT_THAT(page, Not(HasSubstr("</script><script>alert(1)")));
  EXPECT_THAT(page, HasSubstr("\\u003c/script>"));
}

TEST(HeatCell, IsAMonotoneScaleWithExactAndNotFiniteApart) {
  EXPECT_EQ(heat_cell(0, 1), 0);
  EXPECT_EQ(heat_cell(std::nan(""), 1), 255);
  EXPECT_EQ(heat_cell(1, 0), 254);
  std::uint8_t before = 0;
  for (double share = 1e-7; share < 1e6; share *= 3) {
    const std::uint8_t cell = heat_cell(share, 1);
    EXPECT_GE(cell, before);
    before = cell;
  }
  EXPECT_EQ(heat_cell(1, 1), 1 + 24 * 6);
}

TEST(HeatRow, IsBase64OfItsCells) {
  EXPECT_EQ(heat_row({{0, 0, 0}, {1, 1, 1}, {}}), "AAAA");
  EXPECT_EQ(heat_row({{1, 0}, {1, 1}, {}}), "kQA=");
  EXPECT_EQ(heat_row({}), "");
}

}  // namespace
}  // namespace mtpcheck::reports
