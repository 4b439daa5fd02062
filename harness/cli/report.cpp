// mtpcheck report show|html|json|diff|export FILE: what a report holds, for people and for machines.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/cli/output_paths.h"
#include "harness/cli/verbs.h"
#include "reports/atomic_file.h"
#include "reports/diff/report_diff.h"
#include "reports/export/export.h"
#include "reports/html/html.h"
#include "reports/schema/json.h"
#include "reports/schema/report_file.h"
#include "reports/terminal/report_view.h"
#include "reports/terminal/text_table.h"

namespace mtpcheck::cli {
namespace {

struct ReportOptions {
  std::string file;
  std::string other;
  std::string out;
  double ratio = 1.1;
};

/// What was made of `file`, to a file of its own, or to standard output where none is named.
int deliver(const std::string& text, const std::string& file, const std::string& out) {
  require_apart({{"--out", out}}, {{"FILE", file}});
  if (out.empty()) {
    fmt::print("{}", text);
  } else {
    reports::write_atomically(out, text);
  }
  return 0;
}

int show(const ReportOptions& options) {
  const reports::Report report = reports::read_report(options.file);
  fmt::print("{}", reports::render_report(report, reports::colours_wanted(STDOUT_FILENO)));
  return 0;
}

int html(const ReportOptions& options) {
  const std::string out = options.out.empty() ? options.file + ".html" : options.out;
  deliver(reports::to_html(reports::read_report(options.file)), options.file, out);
  fmt::print("{}\n", out);
  return 0;
}

int json(const ReportOptions& options) {
  return deliver(reports::to_json(reports::read_report(options.file)).dump(2) + "\n", options.file, options.out);
}

int diff(const ReportOptions& options) {
  const auto result =
      reports::diff(reports::read_report(options.file), reports::read_report(options.other), options.ratio);
  fmt::print("{}", reports::render_diff(result, reports::colours_wanted(STDOUT_FILENO)));
  return result.worse ? 1 : 0;
}

int export_files(const ReportOptions& options) {
  for (const auto& file : reports::export_report(reports::read_report(options.file), options.out)) {
    fmt::print("{}\n", file.string());
  }
  return 0;
}

CLI::App* add(CLI::App& verb, const std::string& name, const std::string& what,
              const std::shared_ptr<ReportOptions>& options, Action& action, int (*run)(const ReportOptions&)) {
  auto* const sub = verb.add_subcommand(name, what);
  sub->add_option("FILE", options->file, "An HDF5 report")->required();
  sub->callback([options, &action, run] { action = [options, run] { return run(*options); }; });
  return sub;
}

}  // namespace

void add_report(CLI::App& app, Action& action) {
  auto* const verb = app.add_subcommand("report", "Show, convert and compare reports");
  verb->require_subcommand(1);
  const auto options = std::make_shared<ReportOptions>();
  add(*verb, "show", "Print it", options, action, show);
  add(*verb, "html", "One self-contained page", options, action, html)
      ->add_option("--out", options->out, "Default: FILE.html");
  add(*verb, "json", "The same as JSON", options, action, json)
      ->add_option("--out", options->out, "Default: standard output");
  auto* const compare =
      add(*verb, "diff", "What changed from FILE to OTHER; exit 1 where something got worse", options, action, diff);
  compare->add_option("OTHER", options->other, "The later report")->required();
  compare->add_option("--ratio", options->ratio, "Errors that changed by less are the same")->capture_default_str();
  add(*verb, "export", "Tables as CSV, kept tensors as .npy", options, action, export_files)
      ->add_option("--out", options->out, "Folder; created where absent")
      ->required();
}

}  // namespace mtpcheck::cli
