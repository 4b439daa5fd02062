#include "reports/export/export.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "reports/schema/sample_report.h"

namespace mtpcheck::reports {
namespace {

TEST(Export, CsvQuotesWhatNeedsIt) {
  const Table table{
      "t", "", {{"a", "", std::vector<std::string>{"x,y", "say \"hi\""}}, {"b", "1", std::vector<double>{0.1, 2}}}};
  EXPECT_EQ(to_csv(table), "a,b\n\"x,y\",0.1\n\"say \"\"hi\"\"\",2\n");
}

TEST(Export, WritesEveryTableAndEveryKeptTensor) {
  const auto folder = std::filesystem::temp_directory_path() / "mtpcheck_export";
  std::filesystem::remove_all(folder);
  const auto files = export_report(sample_report(), folder);
  EXPECT_TRUE(std::filesystem::exists(folder / "cumulative.csv"));
  EXPECT_TRUE(std::filesystem::exists(folder / "curve.csv"));
  std::ifstream file(folder / "q_rope.candidate.npy", std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  EXPECT_EQ(bytes.size(), 128u + 16u);
  EXPECT_EQ(bytes.substr(1, 5), "NUMPY");
  EXPECT_NE(bytes.find("'shape': (2, 1, 2,)"), std::string::npos);
  EXPECT_GE(files.size(), 10u);
}

}  // namespace
}  // namespace mtpcheck::reports
