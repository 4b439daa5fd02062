#include "harness/acceptance/study/series.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "harness/acceptance/study/toy_head.h"
#include "reports/schema/report_file.h"

namespace mtpcheck {
namespace {

AcceptanceStudy toy_study() {
  const std::vector<TargetTrace> traces{make_trace({0, 1, 2, 0, 1, 2, 1, 1, 0, 0}, TraceOrigin::sampled, 2),
                                        make_trace({2, 2, 1, 0, 1, 2, 0, 0}, TraceOrigin::sampled, 2)};
  ToyHead head;
  return study(head, traces, {.depth = 3});
}

// What a continued sweep needs is in the file itself: the sequences' sums come back bit for bit.
TEST(Series, SurvivesTheReportsFile) {
  const auto study = toy_study();
  reports::Report report;
  report.verb = "accept";
  append_series(report, "toy", study, [](std::int64_t token) { return token == 0 ? "zero" : "other"; });
  const auto path = std::filesystem::temp_directory_path() / "mtpcheck-series-test.h5";
  reports::write_report(path, report);
  const auto read = reports::read_report(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(has_series(read, "toy"));
  EXPECT_FALSE(has_series(read, "toy 2"));
  const auto sequences = sequences_of(read, "toy");
  ASSERT_EQ(sequences.size(), study.sequences.size());
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    for (std::size_t k = 0; k < 3; ++k) {
      EXPECT_EQ(sequences[s].expected[k].numerator, study.sequences[s].expected[k].numerator);
      EXPECT_EQ(sequences[s].greedy[k].denominator, study.sequences[s].greedy[k].denominator);
    }
  }
}

TEST(Series, JsonHasTheFiguresOfTheFirstSeriesAtTheTop) {
  const auto study = toy_study();
  reports::Report report;
  append_series(report, "first", study, {});
  append_series(report, "second", study, {});
  const auto json = acceptance_json(report);
  ASSERT_EQ(json["depths"].size(), 3U);
  EXPECT_EQ(json["depths"][0]["expected"]["rate"].get<double>(), study.depths[0].expected_rate());
  EXPECT_EQ(json["mean_acceptance_length"]["greedy"].get<double>(), study.mean_acceptance_length_greedy());
  EXPECT_EQ(json["sequences"].size(), 2U);
  EXPECT_EQ(json["all_series"].size(), 2U);
  EXPECT_TRUE(json["definitions"].contains("vllm: mean acceptance length"));
}

TEST(Series, PairedRowsAreAgainstTheBaseline) {
  const auto study = toy_study();
  reports::Report report;
  append_series(report, "a", study, {});
  append_series(report, "b", study, {});
  append_paired(report, "a", "b", 1);
  ASSERT_EQ(report.tables.back().name, "acceptance_paired");
  EXPECT_EQ(report.tables.back().rows(), 3U);
  EXPECT_EQ(reports::RowReader(report.tables.back(), 0).number("expected_difference"), 0.0);
}

// One verification only: the other's columns are not in the tables, nor its figures in the JSON.
TEST(Series, HoldsTheFiguresThatWereAskedFor) {
  const auto study = toy_study();
  reports::Report report;
  append_series(report, "a", study, {}, {.greedy = true, .rejection = false});
  append_series(report, "b", study, {}, {.greedy = true, .rejection = false});
  append_paired(report, "a", "b", 1, {.greedy = true, .rejection = false});
  const auto json = acceptance_json(report);
  EXPECT_TRUE(json["depths"][0].contains("greedy"));
  EXPECT_FALSE(json["depths"][0].contains("expected"));
  EXPECT_EQ(json["mean_acceptance_length"]["greedy"].get<double>(), study.mean_acceptance_length_greedy());
  EXPECT_FALSE(json["mean_acceptance_length"].contains("expected"));
  EXPECT_EQ(json["all_series"][1]["paired"][0]["greedy_p"].get<double>(), 1.0);
  for (const auto& metric : json["metrics"]) EXPECT_EQ(metric["verification"].get<std::string>(), "greedy");
}

// The length at a depth is that of a drafter which stops there; its price decides how deep to draft.
TEST(Series, SpeedUpIsOfADrafterThatStopsAtEachDepth) {
  const auto study = toy_study();
  reports::Report report;
  append_speedup(report, "toy", study, {.draft = 0.1, .verify = 1.2});
  const auto& table = report.tables.back();
  ASSERT_EQ(table.rows(), 3U);
  double length = 1;
  for (std::size_t k = 0; k < 3; ++k) {
    length += study.expected_counts.reached[k] / study.expected_counts.steps;
    EXPECT_DOUBLE_EQ(study.depths[k].expected_length, length);
    EXPECT_DOUBLE_EQ(reports::RowReader(table, k).number("expected"),
                     length / (0.1 * static_cast<double>(k + 1) + 1.2));
  }
  EXPECT_DOUBLE_EQ(study.depths[2].expected_length, study.mean_acceptance_length_expected());
}

}  // namespace
}  // namespace mtpcheck
