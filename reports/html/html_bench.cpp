// Rendering a large report, 50 stages x 4,096 tokens: the page's text here, its drawing in a browser with
// browser/measure_page.py, for which the page is left in the current folder.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cmath>
#include <fstream>

#include "reports/html/html.h"
#include "reports/schema/sample_report.h"

namespace mtpcheck::reports {
namespace {

Report large_report() {
  constexpr std::size_t kStages = 50;
  constexpr std::size_t kTokens = 4096;
  Report report = sample_report();
  const StageRecord one = report.comparison->stages.at(1);
  report.comparison->stages.clear();
  for (std::size_t s = 0; s < kStages; ++s) {
    StageRecord stage = one;
    stage.name = stage.stage = fmt::format("stage_{}", s);
    stage.extents = {kTokens, 64, 64};
    stage.dimensions = {"T", "N", "r"};
    stage.worst.assign(10, stage.worst.front());
    stage.profile = {};
    for (std::size_t t = 0; t < kTokens; ++t) {
      stage.profile.token_rms.push_back(1e-7 * std::exp(3 * std::sin(0.01 * static_cast<double>(t * (s + 1)))));
      stage.profile.token_allowance.push_back(1e-7);
    }
    report.comparison->stages.push_back(std::move(stage));
  }
  return report;
}

void page_of_50_stages_and_4096_tokens(benchmark::State& state) {
  const Report report = large_report();
  std::string page;
  for (auto _ : state) page = to_html(report);
  std::ofstream("large_report.html") << page;
  state.counters["bytes"] = static_cast<double>(page.size());
}
BENCHMARK(page_of_50_stages_and_4096_tokens)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace mtpcheck::reports
