#include "reports/junit/junit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace mtpcheck::reports {
namespace {

TEST(ToJUnit, CountsAndEscapes) {
  const std::array cases{JUnitCase{"compare", "enorm", "", ""},
                         JUnitCase{"compare", "q<rope>", "error \"x\" & more", "line 1\nline 2\x01"}};
  const std::string xml = to_junit("mtpcheck", cases);
  EXPECT_THAT(xml, testing::HasSubstr("tests=\"2\" failures=\"1\""));
  EXPECT_THAT(xml, testing::HasSubstr("name=\"q&lt;rope&gt;\""));
  EXPECT_THAT(xml, testing::HasSubstr("message=\"error &quot;x&quot; &amp; more\""));
  EXPECT_THAT(xml, testing::HasSubstr("line 1&#10;line 2\xEF\xBF\xBD<"));
}

}  // namespace
}  // namespace mtpcheck::reports
