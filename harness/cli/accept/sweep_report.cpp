#include "harness/cli/accept/sweep_report.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "harness/acceptance/study/series.h"
#include "harness/checkpoint/checkpoint_record.h"
#include "harness/cli/run_record.h"
#include "harness/loading/carry_out/carry_out.h"
#include "reference/tensor/error.h"
#include "reports/atomic_file.h"
#include "reports/record/append.h"
#include "reports/schema/json.h"
#include "reports/schema/report_file.h"

namespace mtpcheck::cli {
namespace {

constexpr const char* kSweep = "acceptance_sweep";
constexpr const char* kHeads = "acceptance_heads";
constexpr const char* kConventions = "acceptance_conventions";

std::string digest(const TargetTrace& trace) {
  const auto hash = [](const auto& values) { return sha256(std::as_bytes(std::span(values))); };
  return hash(hash(trace.input_ids) + hash(trace.target_hidden.bytes) + sha256(trace.target_logits.bytes) +
              hash(trace.top_ids) + hash(trace.top_log_probabilities) + hash(trace.remaining_mass));
}

// What must be the same for a sweep to be continued.
std::string sweep_key(const AcceptOptions& options, const std::string& identity,
                      const std::vector<TraceGroup>& groups) {
  std::string key = fmt::format("{} depth {} sampling {} weights {} {} seed {} simulate {} costs {} {}", identity,
                                options.depth, options.sampling, options.weights, options.loader, options.seed,
                                options.simulate, options.costs.draft, options.costs.verify);
  for (const auto& [name, value] : options.conventions.settings) key += fmt::format(" {}={}", name, value);
  for (const auto& group : groups) {
    for (const auto& trace : group) key += fmt::format(" {} {}", trace.name, digest(trace));
  }
  return key + " classes " + options.token_classes;
}

// The report at --report, which is continued or written over; nullopt where there is none. That of another verb is no
// sweep's to replace. --restart also replaces a file that can no longer be read.
std::optional<reports::Report> report_before(const AcceptOptions& options) {
  if (options.report.empty() || !std::filesystem::is_regular_file(options.report)) return std::nullopt;
  std::optional<reports::Report> before;
  try {
    before = reports::read_report(options.report);
  } catch (const Error&) {
    if (!options.restart) throw;
    return std::nullopt;
  }
  if (before->verb != "accept") {
    throw usage_error(fmt::format("--report {}: holds a report of {}, and one of accept was expected, or no file",
                                  options.report, before->verb));
  }
  return before;
}

}  // namespace

reports::Report begin_report(const AcceptOptions& options, const OpenedCheckpoint& first,
                             const std::vector<TraceGroup>& groups) {
  const std::string key = sweep_key(options, identity_of(first.checkpoint), groups);
  reports::Report report;
  if (auto before = report_before(options); before && !options.restart) {
    const auto* const sweep = reports::find_table(*before, kSweep);
    if (sweep != nullptr && reports::RowReader(*sweep, 0).text("key") == key) report = std::move(*before);
  }
  if (report.verb.empty()) {
    report.verb = "accept";
    report.pass = true;
    reports::append_row(report, kSweep, "what the sweep is over", {{"key", key}});
  }
  report.checkpoint = checkpoint_record(first.checkpoint);
  report.run = describe_run();
  report.run.config = first.checkpoint.config.dump(1);
  return report;
}

void append_head(reports::Report& report, const SweptHead& head, const OpenedCheckpoint& opened,
                 const ResolvedConventions& conventions) {
  const std::string identity = identity_of(opened.checkpoint);
  const auto* const heads = reports::find_table(report, kHeads);
  for (std::size_t i = 0; heads != nullptr && i < heads->rows(); ++i) {
    const reports::RowReader row(*heads, i);
    if (row.text("head") != head.name) continue;
    if (row.text("identity") == identity) return;
    throw input_error(fmt::format("the report has figures of '{}' from another checkpoint, {}: --restart begins anew",
                                  head.name, row.text("checkpoint")));
  }
  reports::append_row(report, kHeads, "a head of the sweep and the files it is made of",
                      {{"head", head.name}, {"checkpoint", opened.checkpoint.path.string()}, {"identity", identity}});
  for (const auto& origin : conventions.origins) {
    reports::append_row(report, kConventions, "a convention of a head and where its value came from",
                        {{"head", head.name},
                         {"key", origin.key},
                         {"value", origin.value},
                         {"level", std::string(to_string(origin.level))},
                         {"source", origin.source}});
  }
}

void write_json(const AcceptOptions& options, const reports::Report& report) {
  nlohmann::ordered_json json = acceptance_json(report);
  json["conventions"] = reports::to_json(report)["tables"][kConventions];
  json["report"] = options.report;
  const std::string text = json.dump(2) + "\n";
  reports::write_atomically(options.json, text);
}

}  // namespace mtpcheck::cli
