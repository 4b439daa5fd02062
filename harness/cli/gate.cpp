// mtpcheck gate REPORT --baseline FILE [--update]: what may not get worse.

#include "harness/gate/gate.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <optional>

#include "harness/cli/output_paths.h"
#include "harness/cli/verbs.h"
#include "reference/tensor/error.h"
#include "reports/atomic_file.h"
#include "reports/junit/junit.h"
#include "reports/schema/report_file.h"

namespace mtpcheck::cli {
namespace {

struct GateOptions {
  std::string report;
  std::string baseline;
  bool update = false;
  std::string reason;
  double headroom = 0.1;
  std::string junit;
  bool annotate = false;
};

void print_result(const GateResult& result) {
  for (const auto state : {ItemState::worsened, ItemState::missing, ItemState::fresh, ItemState::fixed}) {
    for (const auto& item : result.items) {
      if (item.state != state) continue;
      fmt::print("{:<9} {:<4} {}: {}\n", to_string(state), item.fails() ? "FAIL" : "", item.measured.item,
                 item.message);
    }
  }
  std::size_t held = 0;
  for (const auto& item : result.items) held += item.state == ItemState::held ? 1 : 0;
  fmt::print("{} items held\n", held);
}

// Workflow commands, as GitHub's runners read them from a log; other systems show them as lines.
void print_annotations(const GateResult& result, const GateOptions& options) {
  for (const auto& item : result.items) {
    if (item.state == ItemState::held) continue;
    const char* const level = item.fails() ? "error" : "notice";
    fmt::print("::{} file={},line={},title=mtpcheck gate: {}::{}: {}\n", level, options.baseline,
               std::max(1, item.limit.line), to_string(item.state), item.measured.item, item.message);
  }
}

void write_cases(const GateResult& result, const std::string& path, const std::string& repro) {
  std::vector<reports::JUnitCase> cases;
  for (const auto& item : result.items) {
    cases.push_back({"gate", item.measured.item, item.fails() ? item.message : std::string(),
                     fmt::format("{}\nrepro: {}", item.measured.detail, repro)});
  }
  reports::write_junit(path, "mtpcheck gate", cases);
}

int update(const GateOptions& options, const reports::Report& report) {
  const bool exists = std::ifstream(options.baseline).good();
  const Baseline before = exists ? read_baseline(options.baseline) : Baseline{};
  const std::string reason = options.reason.empty() ? "new: say why this is right" : options.reason;
  const std::string text = to_text(updated(report, before, reason, options.headroom));
  reports::write_atomically(options.baseline, text);
  fmt::print("{} written: review it before you commit it\n", options.baseline);
  return 0;
}

void check_options(const GateOptions& options) {
  if (!std::isfinite(options.headroom) || options.headroom < 0) {
    throw usage_error(fmt::format("--headroom {:g}: expected a share, finite and not negative", options.headroom));
  }
  if (options.reason.find_first_of("\n\r") != std::string::npos) {
    throw usage_error("--reason: expected one line, since a limit is one line of a baseline");
  }
}

int run_gate(const GateOptions& options) {
  check_options(options);
  require_apart({{"--junit", options.junit}}, {{"REPORT", options.report}, {"--baseline", options.baseline}});
  if (options.update) require_apart({{"--baseline", options.baseline}}, {{"REPORT", options.report}});
  const reports::Report report = reports::read_report(options.report);
  if (options.update) return update(options, report);
  const GateResult result = judge(report, read_baseline(options.baseline));
  const std::string repro = fmt::format("mtpcheck gate {} --baseline {}", options.report, options.baseline);
  print_result(result);
  if (options.annotate) print_annotations(result, options);
  if (!options.junit.empty()) write_cases(result, options.junit, repro);
  fmt::print("gate: {}\n", result.holds() ? "holds" : "does not hold");
  if (!result.holds()) fmt::print("repro: {}\n", repro);
  return result.holds() ? 0 : 1;
}

}  // namespace

void add_gate(CLI::App& app, Action& action) {
  auto* const verb = app.add_subcommand("gate", "Fail when a report is worse than what was agreed");
  auto options = std::make_shared<GateOptions>();
  verb->add_option("REPORT", options->report, "An HDF5 report of compare, audit or accept")->required();
  verb->add_option("--baseline", options->baseline, "The reviewed text file of limits and reasons")->required();
  verb->add_flag("--update", options->update, "Write the limits that this report passes, keeping reasons");
  verb->add_option("--reason", options->reason, "Reason of limits that are new in an update");
  verb->add_option("--headroom", options->headroom, "Share by which an update lets errors and times grow")
      ->capture_default_str();
  verb->add_option("--junit", options->junit, "Write JUnit XML");
  verb->add_flag("--annotate", options->annotate, "Print GitHub workflow commands");
  verb->callback([options, &action] { action = [options] { return run_gate(*options); }; });
}

}  // namespace mtpcheck::cli
