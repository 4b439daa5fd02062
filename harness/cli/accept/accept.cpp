// mtpcheck accept CHECKPOINT --traces FILE…: what the head's drafts are worth to the target that wrote the traces.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "harness/acceptance/study/simulation.h"
#include "harness/acceptance/study/study.h"
#include "harness/acceptance/study/token_classes.h"
#include "harness/acceptance/trace/target_trace.h"
#include "harness/cli/accept/print_series.h"
#include "harness/cli/accept/sweep.h"
#include "harness/cli/accept/sweep_report.h"
#include "harness/cli/number_checks.h"
#include "harness/cli/output_paths.h"
#include "harness/cli/progress.h"
#include "harness/cli/verbs.h"
#include "harness/heads/opened_checkpoint.h"
#include "reference/tensor/error.h"
#include "reports/atomic_file.h"
#include "reports/schema/report_file.h"

namespace mtpcheck::cli {
namespace {

// Configs give one end-of-sequence token or a list of them.
std::vector<std::int64_t> ends_of_sequence(const nlohmann::json& config) {
  const auto found = config.find("eos_token_id");
  if (found == config.end()) return {};
  if (found->is_number_integer()) return {found->get<std::int64_t>()};
  std::vector<std::int64_t> tokens;
  if (!found->is_array()) return tokens;
  for (const auto& token : *found) {
    if (token.is_number_integer()) tokens.push_back(token.get<std::int64_t>());
  }
  return tokens;
}

// A sweep under way: what it is over, what it has, and how far it is.
class Sweep {
 public:
  Sweep(const AcceptOptions& options, std::vector<TraceGroup> groups, reports::Report report)
      : options_(options),
        groups_(std::move(groups)),
        samplings_(samplings_of(options)),
        report_(std::move(report)),
        token_class_(options.token_classes.empty() ? TokenClass{} : read_token_classes(options.token_classes)) {
    const std::size_t checkpoints = checkpoints_of(options).size();
    for (std::size_t i = 0; i < checkpoints; ++i) {
      for (const auto& head : heads_of(options, i)) {
        if (baseline_.name.empty()) baseline_ = head;
        for (const auto& traces : groups_) {
          if (!done(head, traces)) work_ += rows_of(traces);
        }
      }
    }
  }

  /// Refuses, before anything is computed, a head that cannot be made: a report of half a sweep would say "pass". The
  /// first checkpoint's heads stand for all, and the only head of a sweep is about to be made anyway.
  void require_heads(const OpenedCheckpoint& opened, std::size_t index) const {
    const auto heads = heads_of(options_, index);
    for (const auto& head : heads) {
      const auto resolved = conventions_of(head, opened);
      if (index == 0 && heads.size() > 1 && !all_done(head)) {
        make_head(head.choice, opened.config, opened.weights, resolved.values);
      }
    }
  }

  /// Throws Error{input} where the traces do not fit the checkpoint.
  void require_traces_fit(const OpenedCheckpoint& opened) const {
    for (const auto& traces : groups_) {
      for (const auto& trace : traces) check_trace(trace, opened.config.hidden_size, opened.config.vocab_size);
    }
  }

  void run(const OpenedCheckpoint& opened, std::size_t index) {
    for (const auto& head : heads_of(options_, index)) {
      if (all_done(head)) {
        fmt::print("{}: taken from {}\n", head.name, options_.report);
        continue;
      }
      const auto resolved = conventions_of(head, opened);
      append_head(report_, head, opened, resolved);
      const auto made = make_head(head.choice, opened.config, opened.weights, resolved.values);
      for (const auto& traces : groups_) {
        if (!done(head, traces)) run_group(*made, head, traces, ends_of_sequence(opened.checkpoint.config));
      }
    }
  }

  const reports::Report& report() const { return report_; }

 private:
  std::string name(const SweptHead& head, const TraceGroup& traces, const SamplingParameters& sampling) const {
    return series_name(options_, head, traces, groups_, sampling);
  }

  bool done(const SweptHead& head, const TraceGroup& traces) const {
    return std::ranges::all_of(samplings_,
                               [&](const auto& sampling) { return has_series(report_, name(head, traces, sampling)); });
  }

  bool all_done(const SweptHead& head) const {
    return std::ranges::all_of(groups_, [&](const auto& traces) { return done(head, traces); });
  }

  ResolvedConventions conventions_of(const SweptHead& head, const OpenedCheckpoint& opened) const {
    ConventionOptions conventions = options_.conventions;
    conventions.preset = head.preset;
    return resolve(conventions, opened.mtpcheck_json);
  }

  double rows_of(const TraceGroup& traces) const {
    double rows = 0;
    for (const auto& trace : traces) rows += static_cast<double>((trace.tokens() - 1) * options_.depth);
    return rows;
  }

  // One pass of the head gives every way of sampling. The report is written when the group is complete, so that a sweep
  // that is interrupted loses one group at most.
  void run_group(Head& head, const SweptHead& swept, const TraceGroup& traces, const std::vector<std::int64_t>& eos) {
    StudyOptions study_options{.depth = options_.depth, .eos = eos, .seed = options_.seed};
    std::size_t drawn = kBar + 1;
    study_options.progress = [&](double share) {
      const auto at = static_cast<std::size_t>(kBar * (finished_ + share * rows_of(traces)) / work_);
      if (at != drawn) progress_.advance(drawn = at, kBar, swept.name);
    };
    const auto studies = study(head, traces, study_options, samplings_);
    progress_.clear();
    bool looped = false;
    for (std::size_t i = 0; i < samplings_.size(); ++i) {
      const std::string series = name(swept, traces, samplings_[i]);
      if (has_series(report_, series)) continue;
      append_series(report_, series, studies[i], token_class_, figures_of(options_));
      const std::string baseline = name(baseline_, traces, samplings_.front());
      if (series != baseline) append_paired(report_, baseline, series, options_.seed, figures_of(options_));
      if (!looped) looped = simulate_loop(head, series, traces, samplings_[i], eos);
      if (options_.costs.draft > 0) append_speedup(report_, series, studies[i], options_.costs, figures_of(options_));
      print_series(report_, series);
    }
    finished_ += rows_of(traces);
    if (!options_.report.empty()) reports::write_report(options_.report, report_);
  }

  bool simulate_loop(Head& head, const std::string& series, const TraceGroup& traces,
                     const SamplingParameters& sampling, const std::vector<std::int64_t>& eos) {
    const std::string verification = loop_of(options_, traces, sampling);
    if (verification.empty()) return false;
    AcceptanceCounts total;
    for (const auto& counts : simulate(head, traces,
                                       {.depth = options_.depth,
                                       .greedy = verification == "greedy",
                                       .sampling = sampling,
                                       .eos = eos,
                                       .seed = options_.seed})) {
      total += counts;
    }
    append_loop(report_, series, verification, total);
    return true;
  }

  static constexpr std::size_t kBar = 1000;

  const AcceptOptions& options_;
  std::vector<TraceGroup> groups_;
  std::vector<SamplingParameters> samplings_;
  reports::Report report_;
  TokenClass token_class_;
  SweptHead baseline_;
  Progress progress_;
  double work_ = 0;  ///< rows × depth that are still to be computed, and how many of them are
  double finished_ = 0;
};

// Asked for, the loop must have something to run along.
void require_a_loop(const AcceptOptions& options, const std::vector<TraceGroup>& groups) {
  if (!options.simulate) return;
  for (const auto& traces : groups) {
    for (const auto& sampling : samplings_of(options)) {
      if (!loop_of(options, traces, sampling).empty()) return;
    }
  }
  throw usage_error(fmt::format(
      "--simulate: the loop follows the text that the target wrote, and none of these traces was written {}: "
      "greedy verification needs greedily generated ones, rejection sampling needs ones that were sampled "
      "with these parameters, both with whole logits",
      options.sampling == "greedy"      ? "greedily"
      : options.sampling == "rejection" ? "by sampling so"
                                        : "so"));
}

std::vector<NamedPath> inputs_of_sweep(const AcceptOptions& options) {
  std::vector<NamedPath> inputs{{"CHECKPOINT", options.checkpoint}, {"--token-classes", options.token_classes}};
  for (const auto& checkpoint : options.also) inputs.push_back({"--also", checkpoint});
  for (const auto& trace : options.traces) inputs.push_back({"--traces", trace});
  return inputs;
}

// Each once, and all of them before the first series: weights as meant are views of mapped files.
std::vector<OpenedCheckpoint> open_all(const AcceptOptions& options) {
  const WeightsChoice weights{.as_loaded = options.weights == "as-loaded", .loader = options.loader};
  const auto paths = checkpoints_of(options);
  std::vector<OpenedCheckpoint> opened;
  opened.reserve(paths.size());
  for (const auto& path : paths) opened.push_back(open_for_heads(path, weights));
  return opened;
}

int run(const AcceptOptions& options) {
  check(options);
  require_apart({{"--report", options.report}, {"--json", options.json}}, inputs_of_sweep(options));
  for (const auto* path : {&options.report, &options.json}) {
    if (!path->empty()) reports::require_writable(*path);
  }
  const auto opened = open_all(options);
  auto groups = read_traces(options, opened.front().config);
  require_a_loop(options, groups);
  auto report = begin_report(options, opened.front(), groups);
  Sweep sweep(options, std::move(groups), std::move(report));
  for (std::size_t i = 0; i < opened.size(); ++i) {
    sweep.require_heads(opened[i], i);
    if (i > 0) sweep.require_traces_fit(opened[i]);  // they were read for the first
  }
  for (std::size_t i = 0; i < opened.size(); ++i) sweep.run(opened[i], i);
  if (!options.report.empty()) reports::write_report(options.report, sweep.report());
  if (!options.json.empty()) write_json(options, sweep.report());
  return 0;
}

}  // namespace

void add_accept(CLI::App& app, Action& action) {
  auto* const verb = app.add_subcommand("accept", "Measure acceptance of a head's drafts on a target's traces");
  auto options = std::make_shared<AcceptOptions>();
  verb->add_option("CHECKPOINT", options->checkpoint, "Directory of config.json and safetensors")->required();
  verb->add_option("--traces", options->traces, "Safetensors or HDF5 files, one sequence each")
      ->required()
      ->expected(1, -1);
  verb->add_option("--also", options->also, "Further checkpoints of the same head, e.g. its quantisations")
      ->expected(1, -1);
  verb->add_option("--depth", options->depth, "Draft tokens a step, 1 to 64")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  verb->add_option(
          "--sampling", options->sampling,
          "Verification whose figures are reported and whose loop is run: greedy, by the target's first choice; "
          "rejection, by rejection sampling. Default: both")
      ->check(CLI::IsMember({"greedy", "rejection"}));
  verb->add_option("--temperature", options->temperatures, "One or more, comma-separated")->delimiter(',');
  verb->add_option("--top-k", options->top_k, "Of target and draft alike; 0: off; one or more")
      ->check(not_negative)
      ->delimiter(',');
  verb->add_option("--top-p", options->top_p, "Of target and draft alike; one or more")->delimiter(',');
  verb->add_option("--min-p", options->min_p, "Of target and draft alike");
  verb->add_option("--head", options->heads, "reference, torch, cuda, cuda-emulated; one or more")->delimiter(',');
  verb->add_option("--dtype", options->dtypes, "f64, f32, bf16, f16; one or more. Default: f32, of CUDA heads bf16")
      ->delimiter(',');
  verb->add_option("--presets", options->presets, "A sweep over presets, comma-separated")->delimiter(',');
  verb->add_option("--weights", options->weights, "as-meant by the files, or as-loaded by --loader")
      ->check(CLI::IsMember({"as-meant", "as-loaded"}))
      ->capture_default_str();
  verb->add_option("--loader", options->loader, "Whose rules load the weights")
      ->each([options](const std::string&) { options->loader_given = true; })
      ->capture_default_str();
  verb->add_option("--token-classes", options->token_classes, "JSON file of classes of tokens");
  verb->add_flag("--simulate", options->simulate, "Also run the drafter's real loop along generated traces");
  verb->add_option("--draft-cost", options->costs.draft,
                   "Cost of a draft step in plain decode steps: gives the speed-up")
      ->check(finite_not_negative);
  verb->add_option("--verify-cost", options->costs.verify, "Cost of a verification")
      ->check(finite_not_negative)
      ->capture_default_str();
  verb->add_option("--seed", options->seed, "Of the bootstrap and the loop")
      ->check(not_negative)
      ->capture_default_str();
  verb->add_option("--report", options->report, "HDF5 report; an interrupted sweep continues from it");
  verb->add_flag("--restart", options->restart, "Begin anew although the report could be continued");
  verb->add_option("--json", options->json, "Write the figures as JSON");
  add_convention_options(*verb, options->conventions);
  verb->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace mtpcheck::cli
