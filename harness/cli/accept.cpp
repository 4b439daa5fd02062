// mtpcheck accept CHECKPOINT --traces FILE…: what the head's drafts are worth to the target that wrote the traces.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/acceptance/study/series.h"
#include "harness/acceptance/study/simulation.h"
#include "harness/acceptance/study/study.h"
#include "harness/acceptance/study/token_classes.h"
#include "harness/acceptance/trace/trace_file.h"
#include "harness/checkpoint/checkpoint_record.h"
#include "harness/cli/convention_options.h"
#include "harness/cli/progress.h"
#include "harness/cli/run_record.h"
#include "harness/cli/verbs.h"
#include "harness/heads/make_head.h"
#include "harness/heads/opened_checkpoint.h"
#include "reference/tensor/error.h"
#include "reports/atomic_file.h"
#include "reports/record/append.h"
#include "reports/schema/json.h"
#include "reports/schema/report_file.h"

namespace mtpcheck::cli {
namespace {

struct Options {
  std::string checkpoint;
  std::vector<std::string> also;  // further checkpoints: other quantisations of the head
  std::vector<std::string> traces;
  std::size_t depth = 1;
  std::vector<double> temperatures{1.0};
  std::vector<std::size_t> top_k{0};
  std::vector<double> top_p{1.0};
  double min_p = 0;
  std::vector<std::string> heads{"reference"};
  std::vector<std::string> dtypes{"f32"};
  std::vector<std::string> presets;
  std::string weights = "as-meant";
  std::string loader = "vllm";
  std::string token_classes;
  bool simulate = false;
  double draft_cost = 0;
  double verify_cost = 1;
  std::uint64_t seed = 0;
  std::string report;
  std::string json;
  bool restart = false;
  ConventionOptions conventions;
};

// One head of a sweep: what makes it, and how its series are called.
struct Variant {
  std::string checkpoint;
  HeadChoice choice;
  std::optional<std::string> preset;
  std::string name;
};

std::vector<Variant> variants_of(const Options& options) {
  std::vector<std::string> checkpoints{options.checkpoint};
  checkpoints.insert(checkpoints.end(), options.also.begin(), options.also.end());
  std::vector<std::optional<std::string>> presets(options.presets.begin(), options.presets.end());
  if (presets.empty()) presets.push_back(options.conventions.preset);
  std::vector<Variant> variants;
  for (const auto& checkpoint : checkpoints) {
    for (const auto& preset : presets) {
      for (const auto& head : options.heads) {
        for (const auto& dtype : options.dtypes) {
          Variant variant{checkpoint, {}, preset, fmt::format("{} {}", head, dtype)};
          variant.choice.head = head;
          variant.choice.dtype = dtype;
          if (checkpoints.size() > 1) variant.name += ", " + std::filesystem::path(checkpoint).filename().string();
          if (preset) variant.name += ", preset " + *preset;
          variants.push_back(std::move(variant));
        }
      }
    }
  }
  return variants;
}

std::vector<SamplingParameters> samplings_of(const Options& options) {
  std::vector<SamplingParameters> samplings;
  for (const double temperature : options.temperatures) {
    for (const std::size_t top_k : options.top_k) {
      for (const double top_p : options.top_p) {
        samplings.push_back({.temperature = temperature, .top_k = top_k, .top_p = top_p, .min_p = options.min_p});
      }
    }
  }
  return samplings;
}

std::string series_name(const Variant& variant, TraceOrigin origin, const SamplingParameters& sampling,
                        bool several_origins, bool several_samplings) {
  std::string name = variant.name;
  if (several_origins) name += fmt::format(", {} traces", to_string(origin));
  if (several_samplings || sampling.temperature != 1) name += fmt::format(", temperature {}", sampling.temperature);
  if (sampling.top_k != 0) name += fmt::format(", top-k {}", sampling.top_k);
  if (sampling.top_p < 1) name += fmt::format(", top-p {}", sampling.top_p);
  if (sampling.min_p > 0) name += fmt::format(", min-p {}", sampling.min_p);
  return name;
}

// Traces by origin: figures of natural, greedy and sampled text are never added up.
std::vector<std::vector<TargetTrace>> read_traces(const Options& options, const HeadConfig& config) {
  std::vector<std::vector<TargetTrace>> groups;
  for (const auto& path : options.traces) {
    TargetTrace trace = read_target_trace(path);
    check_trace(trace, config.hidden_size, config.vocab_size);
    const auto same = std::ranges::find_if(groups, [&](const auto& group) {
      return group.front().origin == trace.origin && group.front().temperature == trace.temperature;
    });
    if (same == groups.end()) {
      groups.emplace_back().push_back(std::move(trace));
    } else {
      same->push_back(std::move(trace));
    }
  }
  return groups;
}

std::optional<std::int64_t> end_of_sequence(const nlohmann::json& config) {
  const auto found = config.find("eos_token_id");
  if (found == config.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<std::int64_t>();
}

// What must be the same for a sweep to be continued; a difference starts anew.
std::string sweep_key(const Options& options, const std::string& identity) {
  return fmt::format("{} depth {} seed {} eos traces {}", identity, options.depth, options.seed,
                     fmt::join(options.traces, " "));
}

// The report so far, when it is of this very sweep; else an empty one.
reports::Report begin_report(const Options& options, const OpenedCheckpoint& opened) {
  const std::string identity = identity_of(opened.checkpoint);
  const std::string key = sweep_key(options, identity);
  if (!options.report.empty() && !options.restart && std::filesystem::exists(options.report)) {
    auto before = reports::read_report(options.report);
    const auto* const sweep = reports::find_table(before, "acceptance_sweep");
    if (before.verb == "accept" && sweep != nullptr && reports::RowReader(*sweep, 0).text("key") == key) return before;
  }
  reports::Report report;
  report.verb = "accept";
  report.pass = true;
  report.checkpoint = checkpoint_record(opened.checkpoint);
  reports::append_row(report, "acceptance_sweep", "what the sweep is over", {{"key", key}});
  return report;
}

void append_conventions(reports::Report& report, const std::string& variant, const ResolvedConventions& resolved) {
  for (const auto& origin : resolved.origins) {
    reports::append_row(report, "acceptance_conventions", "a convention of a variant and where its value came from",
                        {{"variant", variant},
                         {"key", origin.key},
                         {"value", origin.value},
                         {"level", std::string(to_string(origin.level))},
                         {"source", origin.source}});
  }
}

void append_speedup(reports::Report& report, const Options& options, const std::string& name,
                    const AcceptanceStudy& study) {
  if (options.draft_cost <= 0) return;
  const auto speedup = [&](double length) {
    return expected_speedup(length, options.depth, options.draft_cost, options.verify_cost);
  };
  reports::append_row(report, "acceptance_speedup", "tokens a second relative to plain decoding",
                      {{"series", name},
                       {"draft_cost", options.draft_cost},
                       {"verify_cost", options.verify_cost},
                       {"greedy", speedup(study.mean_acceptance_length_greedy())},
                       {"expected", speedup(study.mean_acceptance_length_expected())}});
}

void print_series(const std::string& name, const AcceptanceStudy& study) {
  fmt::print("{} on {} {} traces, {} chains\n", name, study.sequences.size(), to_string(study.origin),
             study.rows.size());
  for (const auto& depth : study.depths) {
    fmt::print("  depth {}  greedy {:6.2f} % [{:.2f}, {:.2f}]  {:.0f} / {:.0f}{}\n", depth.depth,
               100 * depth.greedy_rate(), 100 * depth.greedy_ci.low, 100 * depth.greedy_ci.high, depth.accepted,
               depth.drafted, depth.greedy_sound ? "" : "   (" + depth.greedy_note + ")");
    fmt::print("           expected {:6.2f} % [{:.2f}, {:.2f}]{}\n", 100 * depth.expected_rate(),
               100 * depth.expected_ci.low, 100 * depth.expected_ci.high,
               depth.expected_sound ? "" : "   (" + depth.expected_note + ")");
  }
  fmt::print("  mean acceptance length {:.4f} greedy, {:.4f} expected (with the bonus token)\n",
             study.mean_acceptance_length_greedy(), study.mean_acceptance_length_expected());
}

void print_paired(const reports::Report& report, const std::string& name) {
  const auto* const table = reports::find_table(report, "acceptance_paired");
  for (std::size_t i = 0; table != nullptr && i < table->rows(); ++i) {
    const reports::RowReader row(*table, i);
    if (row.text("series") != name) continue;
    fmt::print(
        "  depth {} against {}: greedy {:+.2f} points [{:+.2f}, {:+.2f}] p {:.3g}, expected {:+.2f} [{:+.2f}, {:+.2f}] "
        "p {:.3g}\n",
        row.integer("depth"), row.text("baseline"), 100 * row.number("greedy_difference"),
        100 * row.number("greedy_low"), 100 * row.number("greedy_high"), row.number("greedy_p"),
        100 * row.number("expected_difference"), 100 * row.number("expected_low"), 100 * row.number("expected_high"),
        row.number("expected_p"));
  }
}

void simulate_loop(reports::Report& report, Head& head, const Options& options, std::span<const TargetTrace> traces,
                   const std::string& name, const SamplingParameters& sampling) {
  const TraceOrigin origin = traces.front().origin;
  if (!options.simulate || origin == TraceOrigin::natural) return;
  AcceptanceCounts total;
  for (const auto& counts : simulate(head, traces,
                                     {.depth = options.depth,
                                     .greedy = origin == TraceOrigin::greedy,
                                     .sampling = sampling,
                                     .seed = options.seed})) {
    total += counts;
  }
  append_loop(report, name, total);
  fmt::print("  loop: {:.4f} tokens a step over {:.0f} steps\n", mean_acceptance_length(total), total.steps);
}

// Everything that one head has to say; series that the report has already are left alone.
void run_variant(reports::Report& report, const Options& options, const Variant& variant,
                 const std::vector<std::vector<TargetTrace>>& groups, const TokenClass& token_class,
                 std::string& baseline) {
  const auto samplings = samplings_of(options);
  const auto name_of = [&](const auto& traces, const SamplingParameters& sampling) {
    return series_name(variant, traces.front().origin, sampling, groups.size() > 1, samplings.size() > 1);
  };
  const auto opened =
      open_for_heads(variant.checkpoint, {.as_loaded = options.weights == "as-loaded", .loader = options.loader});
  ConventionOptions conventions = options.conventions;
  conventions.preset = variant.preset;
  const auto resolved = resolve(conventions, opened.mtpcheck_json);
  const auto head = make_head(variant.choice, opened.config, opened.weights, resolved.values);
  bool fresh = false;
  for (const auto& traces : groups) {
    if (baseline.empty()) baseline = name_of(traces, samplings.front());
    if (std::ranges::all_of(samplings,
                            [&](const auto& sampling) { return has_series(report, name_of(traces, sampling)); }))
      continue;
    if (!fresh) append_conventions(report, variant.name, resolved);
    fresh = true;
    Progress progress;
    StudyOptions study_options{
        .depth = options.depth, .eos = end_of_sequence(opened.checkpoint.config), .seed = options.seed};
    study_options.progress = [&](double share) {
      progress.advance(static_cast<std::size_t>(1000 * share), 1000, variant.name);
    };
    const auto studies = study(*head, traces, study_options, samplings);
    for (std::size_t i = 0; i < samplings.size(); ++i) {
      const std::string name = name_of(traces, samplings[i]);
      if (has_series(report, name)) continue;
      append_series(report, name, studies[i], token_class);
      append_speedup(report, options, name, studies[i]);
      print_series(name, studies[i]);
      if (name != baseline && sequences_of(report, baseline).size() == studies[i].sequences.size()) {
        append_paired(report, baseline, name, options.seed);
        print_paired(report, name);
      }
      simulate_loop(report, *head, options, traces, name, samplings[i]);
    }
    if (!options.report.empty()) reports::write_report(options.report, report);
  }
}

int run(const Options& options) {
  if (options.depth == 0) throw usage_error("--depth 0: at least one draft was expected");
  if (!options.report.empty()) reports::require_writable(options.report);
  const auto opened = open_for_heads(options.checkpoint);
  const auto groups = read_traces(options, opened.config);
  const TokenClass token_class =
      options.token_classes.empty() ? TokenClass{} : read_token_classes(options.token_classes);
  reports::Report report = begin_report(options, opened);
  report.run = describe_run();
  report.run.config = opened.checkpoint.config.dump(1);
  std::string baseline;
  for (const auto& variant : variants_of(options)) run_variant(report, options, variant, groups, token_class, baseline);
  if (!options.report.empty()) reports::write_report(options.report, report);
  if (!options.json.empty()) {
    nlohmann::ordered_json json = acceptance_json(report);
    json["conventions"] = reports::to_json(report)["tables"]["acceptance_conventions"];
    json["report"] = options.report;
    const std::string text = json.dump(2) + "\n";
    reports::write_atomically(options.json, std::as_bytes(std::span(text)));
  }
  return 0;
}

}  // namespace

void add_accept(CLI::App& app, Action& action) {
  auto* const verb = app.add_subcommand("accept", "Measure acceptance of a head's drafts on a target's traces");
  auto options = std::make_shared<Options>();
  verb->add_option("CHECKPOINT", options->checkpoint, "Directory of config.json and safetensors")->required();
  verb->add_option("--traces", options->traces, "Safetensors or HDF5 files, one sequence each")
      ->required()
      ->expected(1, -1);
  verb->add_option("--also", options->also, "Further checkpoints of the same head, e.g. its quantisations")
      ->expected(1, -1);
  verb->add_option("--depth", options->depth, "Draft tokens a step")->capture_default_str();
  verb->add_option("--temperature", options->temperatures, "One or more, comma-separated")->delimiter(',');
  verb->add_option("--top-k", options->top_k, "Of target and draft alike; 0: off")->delimiter(',');
  verb->add_option("--top-p", options->top_p, "Of target and draft alike")->delimiter(',');
  verb->add_option("--min-p", options->min_p, "Of target and draft alike");
  verb->add_option("--head", options->heads, "reference, torch, cuda, cuda-emulated")->delimiter(',');
  verb->add_option("--dtype", options->dtypes, "f64, f32, bf16, f16")->delimiter(',');
  verb->add_option("--presets", options->presets, "A sweep over presets, comma-separated")->delimiter(',');
  verb->add_option("--weights", options->weights, "as-meant by the files, or as-loaded by --loader")
      ->check(CLI::IsMember({"as-meant", "as-loaded"}))
      ->capture_default_str();
  verb->add_option("--loader", options->loader, "Whose rules load the weights")->capture_default_str();
  verb->add_option("--token-classes", options->token_classes, "JSON file of classes of tokens");
  verb->add_flag("--simulate", options->simulate, "Also run the drafter's real loop along generated traces");
  verb->add_option("--draft-cost", options->draft_cost,
                   "Cost of a draft step in plain decode steps: gives the speed-up");
  verb->add_option("--verify-cost", options->verify_cost, "Cost of a verification")->capture_default_str();
  verb->add_option("--seed", options->seed, "Of the bootstrap and the loop")->capture_default_str();
  verb->add_option("--report", options->report, "HDF5 report; an interrupted sweep continues from it");
  verb->add_flag("--restart", options->restart, "Begin anew although the report could be continued");
  verb->add_option("--json", options->json, "Write the figures as JSON");
  add_convention_options(*verb, options->conventions);
  verb->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace mtpcheck::cli
