// mtpcheck faults list | inject | study: the catalogue of known mistakes, and the proof that each is found.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/acceptance/trace/trace_file.h"
#include "harness/checkpoint/checkpoint.h"
#include "harness/checkpoint/scratch_directory.h"
#include "harness/cli/number_checks.h"
#include "harness/cli/output_paths.h"
#include "harness/cli/progress.h"
#include "harness/cli/run_record.h"
#include "harness/cli/verbs.h"
#include "harness/faults/clean/clean_study.h"
#include "harness/faults/study/fault_study.h"
#include "harness/inputs/input_file.h"
#include "reference/tensor/error.h"
#include "reports/atomic_file.h"
#include "reports/record/append.h"
#include "reports/schema/report_file.h"

namespace mtpcheck::cli {
namespace {

struct FaultsOptions {
  std::string checkpoint;  // inject
  std::string fault;
  std::string out;
  std::string bases;  // study
  std::vector<std::string> traces;
  std::vector<std::string> only;
  std::string report;
  std::string json;
  std::string markdown;
  std::size_t clean = 0;
};

int list() {
  for (const auto& fault : fault_catalogue()) {
    fmt::print("{:<28} {:<4} {:<10} {:<8} {:<34} {}\n", fault.id, fault.row, to_string(fault.kind),
               to_string(fault.caught_by), fault.where, fault.what);
  }
  return 0;
}

int inject_one(const FaultsOptions& options) {
  const auto faults = fault_catalogue();
  const Fault* const fault = find_fault(faults, options.fault);
  if (fault == nullptr) throw usage_error(fmt::format("'{}' is no fault: see mtpcheck faults list", options.fault));
  if (std::filesystem::exists(options.out)) throw usage_error(fmt::format("{} exists already", options.out));
  if (lies_inside(options.out, options.checkpoint)) {
    throw usage_error(fmt::format("--out {} lies inside CHECKPOINT {}: a folder outside it was expected", options.out,
                                  options.checkpoint));
  }
  inject(*fault, options.checkpoint, options.out);
  fmt::print("{}: {}\n{} must catch it at {}\n", fault->id, fault->what, to_string(fault->caught_by), fault->where);
  return 0;
}

FaultStudy study_of(const FaultsOptions& options, const std::filesystem::path& scratch) {
  FaultStudy study;
  study.bases = options.bases;
  study.scratch = scratch;
  study.target_norm = target_norm_of(options.bases);
  const std::vector<std::string> first(
      options.traces.begin(), options.traces.begin() + std::min<std::ptrdiff_t>(2, std::ssize(options.traces)));
  study.rows = [first](const HeadConfig& config) {
    std::vector<HeadInput> inputs;
    inputs.reserve(first.size());
    for (const auto& file : first) inputs.push_back(read_head_input(file, config));
    return packed(inputs);
  };
  for (const auto& trace : options.traces) study.traces.push_back(read_target_trace(trace));
  return study;
}

void append_result(reports::Report& report, const FaultResult& result) {
  const auto text = [](const Sighting& sighting) { return sighting.seen ? sighting.evidence : std::string(); };
  reports::append_row(report, "faults", "a fault, what saw it, and what it costs in acceptance",
                      {{"id", result.id},
                       {"kind", std::string(to_string(result.kind))},
                       {"caught_by", std::string(to_string(result.caught_by))},
                       {"where", result.where},
                       {"effect", std::int64_t{result.effect}},
                       {"caught", std::int64_t{result.caught()}},
                       {"audit", text(result.audit)},
                       {"compare", text(result.compare)},
                       {"accept", text(result.accept)},
                       {"greedy_before", result.before.greedy},
                       {"greedy_after", result.after.greedy},
                       {"expected_before", result.before.expected},
                       {"expected_after", result.after.expected}});
}

nlohmann::ordered_json as_json(std::span<const FaultResult> results, std::span<const CleanResult> clean) {
  const FaultScore total = score(results);
  nlohmann::ordered_json json{{"caught", total.caught},
                              {"missed", total.missed},
                              {"no_effect", total.no_effect},
                              {"clean_variations", clean.size()},
                              {"false_alarms", false_alarms(clean)},
                              {"faults", nlohmann::ordered_json::array()}};
  const auto sighting = [](const Sighting& s) {
    return nlohmann::ordered_json{
        {"looked", s.looked}, {"seen", s.seen}, {"right_place", s.right_place}, {"evidence", s.evidence}};
  };
  for (const auto& result : results) {
    json["faults"].push_back({{"id", result.id},
                              {"kind", to_string(result.kind)},
                              {"caught_by", to_string(result.caught_by)},
                              {"where", result.where},
                              {"effect", result.effect},
                              {"caught", result.caught()},
                              {"audit", sighting(result.audit)},
                              {"compare", sighting(result.compare)},
                              {"accept", sighting(result.accept)},
                              {"acceptance",
                               {{"before", {result.before.greedy, result.before.expected}},
                                {"after", {result.after.greedy, result.after.expected}}}}});
  }
  return json;
}

// The clean variations, and what was said of them.
struct Clean {
  std::vector<CleanVariation> variations;
  std::vector<CleanResult> results;
};

Clean study_variations(const FaultsOptions& options, const std::vector<TargetTrace>& traces,
                       const std::filesystem::path& scratch) {
  Clean clean;
  if (options.clean == 0) return clean;
  clean.variations = clean_variations(options.clean);
  Progress progress;
  CleanStudy study;
  study.base = std::filesystem::path(options.bases) / "checkpoint-bf16";
  study.scratch = scratch;
  study.traces.assign(traces.begin(), traces.begin() + 1);
  study.progress = [&](std::size_t done, std::size_t total) { progress.advance(done, total, "clean variations"); };
  clean.results = study_clean(study, clean.variations);
  progress.clear();
  for (const auto& result : clean.results) {
    for (const auto& alarm : result.alarms) fmt::print("FALSE ALARM {}: {}\n", result.name, alarm);
  }
  fmt::print("{} clean variations, {} false alarms\n", clean.results.size(), false_alarms(clean.results));
  return clean;
}

void append_clean(reports::Report& report, const CleanResult& result) {
  reports::append_row(report, "clean_variations", "a checkpoint without a fault, and what was said of it",
                      {{"variation", result.name}, {"alarms", fmt::format("{}", fmt::join(result.alarms, "; "))}});
}

std::vector<NamedPath> inputs_of_study(const FaultsOptions& options) {
  std::vector<NamedPath> inputs{{"BASES", options.bases}};
  for (const auto& trace : options.traces) inputs.push_back({"--traces", trace});
  return inputs;
}

int study_all(const FaultsOptions& options) {
  require_apart({{"--report", options.report}, {"--json", options.json}, {"--markdown", options.markdown}},
                inputs_of_study(options));
  std::vector<Fault> faults = fault_catalogue();
  if (!options.only.empty()) {
    for (const auto& id : options.only) {
      if (find_fault(faults, id) == nullptr)
        throw usage_error(fmt::format("'{}' is no fault: see mtpcheck faults list", id));
    }
    std::erase_if(faults,
                  [&](const Fault& fault) { return std::ranges::find(options.only, fault.id) == options.only.end(); });
  }
  const ScratchDirectory scratch;
  Progress progress;
  FaultStudy study = study_of(options, scratch.path());
  study.progress = [&](std::size_t done, std::size_t total) { progress.advance(done, total, "faults"); };
  const auto results = study_faults(study, faults);
  progress.clear();
  for (const auto& result : results) {
    const char* const verdict = !result.effect ? "no effect" : result.caught() ? "caught" : "MISSED";
    fmt::print("{:<9} {:<28} by {:<8} at {:<34} {}\n", verdict, result.id, to_string(result.caught_by), result.where,
               result.catcher().evidence);
  }
  const FaultScore total = score(results);
  fmt::print("{} caught, {} missed, {} without an effect on this input\n", total.caught, total.missed, total.no_effect);
  const Clean clean = study_variations(options, study.traces, scratch.path());
  const bool pass = total.missed == 0 && false_alarms(clean.results) == 0;
  if (!options.report.empty()) {
    reports::Report report;
    report.verb = "faults";
    report.pass = pass;
    report.run = describe_run();
    for (const auto& result : results) append_result(report, result);
    for (const auto& result : clean.results) append_clean(report, result);
    reports::write_report(options.report, report);
  }
  if (!options.json.empty()) reports::write_atomically(options.json, as_json(results, clean.results).dump(2) + "\n");
  if (!options.markdown.empty()) {
    reports::write_atomically(
        options.markdown,
        to_markdown(results, faults) + (options.clean == 0 ? "" : to_markdown(clean.variations, clean.results)));
  }
  return pass ? 0 : 1;
}

}  // namespace

void add_faults(CLI::App& app, Action& action) {
  auto* const verb = app.add_subcommand("faults", "List, inject and study the known ways of getting a head wrong");
  verb->require_subcommand(1);
  auto options = std::make_shared<FaultsOptions>();
  verb->add_subcommand("list", "The catalogue: id, public list, kind, catcher, place, what")->callback([&action] {
    action = list;
  });

  auto* const inject = verb->add_subcommand("inject", "Write a checkpoint with one fault in it");
  inject->add_option("CHECKPOINT", options->checkpoint, "A sound checkpoint, such as the fault's base of tiny-hy4")
      ->required();
  inject->add_option("--fault", options->fault, "Id of a fault of files")->required();
  inject->add_option("--out", options->out, "Folder to write")->required();
  inject->callback([options, &action] { action = [options] { return inject_one(*options); }; });

  auto* const study = verb->add_subcommand("study", "Inject every fault; exit 1 when one with an effect is missed");
  study->add_option("BASES", options->bases, "Folder of checkpoint-bf16, -split, -fp8-block and -mxfp8")->required();
  study->add_option("--traces", options->traces, "Natural text; the rows of the first two, packed, are compared on")
      ->required()
      ->expected(1, -1);
  study->add_option("--only", options->only, "Ids, comma-separated")->delimiter(',');
  study->add_option("--clean", options->clean, "Also look at so many clean variations; exit 1 at a false alarm")
      ->check(not_negative);
  study->add_option("--report", options->report, "HDF5 report");
  study->add_option("--json", options->json, "Write the matrix as JSON");
  study->add_option("--markdown", options->markdown, "Write the matrix as a Markdown page");
  study->callback([options, &action] { action = [options] { return study_all(*options); }; });
}

}  // namespace mtpcheck::cli
