// mtpcheck compare CHECKPOINT (--inputs FILE | --tokens N --seed S) --candidate HEAD|dump:PATH: stage by stage.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "harness/checkpoint/checkpoint_record.h"
#include "harness/cli/convention_options.h"
#include "harness/cli/number_checks.h"
#include "harness/cli/output_paths.h"
#include "harness/cli/progress.h"
#include "harness/cli/run_record.h"
#include "harness/cli/verbs.h"
#include "harness/heads/make_head.h"
#include "harness/heads/opened_checkpoint.h"
#include "harness/inputs/input_file.h"
#include "harness/inputs/random_input.h"
#include "harness/parity/comparison/comparison.h"
#include "harness/parity/dump/candidate_dump.h"
#include "harness/parity/reference_side/reference_side.h"
#include "harness/parity/trace/chain.h"
#include "reference/tensor/error.h"
#include "reports/atomic_file.h"
#include "reports/junit/junit.h"
#include "reports/schema/json.h"
#include "reports/schema/report_file.h"
#include "reports/terminal/report_view.h"
#include "reports/terminal/text_table.h"

namespace mtpcheck::cli {
namespace {

constexpr std::string_view kDump = "dump:";

struct CompareOptions {
  std::string checkpoint;
  std::string inputs;
  std::size_t tokens = 0;
  std::uint64_t seed = 0;
  std::string reference = "reference";
  std::string candidate = "torch";
  std::string dtype;
  std::string activations = "none";
  std::string rounding;
  std::string candidate_weights = "as-meant";
  std::string loader = "vllm";
  bool loader_given = false;
  std::string fill = "initial";
  std::size_t steps = 1;
  int threads = 0;
  Tolerance tolerance;
  bool force_selections = false;
  bool no_replay = false;
  std::vector<std::string> without;
  std::string keep = "none";
  std::string mapping;
  std::string dump_prefix;
  std::string report;
  std::string json;
  std::string junit;
  ConventionOptions conventions;
  ConventionOptions candidate_conventions;
};

bool is_dump(const CompareOptions& options) { return options.candidate.starts_with(kDump); }

HeadInput read_input(const CompareOptions& options, const HeadConfig& config) {
  if (options.inputs.empty() == (options.tokens == 0)) {
    throw usage_error("compare needs either --inputs FILE or --tokens N: the rows to run the heads on");
  }
  if (!options.inputs.empty()) return read_head_input(options.inputs, config);
  return random_head_input(config, options.tokens, options.seed);
}

std::function<bool(Stage)> wanted_stages(const CompareOptions& options) {
  std::set<Stage> without;
  for (const auto& text : options.without) {
    const auto stage = stage_from_name(text);
    if (!stage) throw usage_error("--without: '" + text + "' is no stage");
    without.insert(*stage);
  }
  if (without.size() == kStages) throw usage_error("--without: names every stage, so that nothing is left to compare");
  if (without.empty()) return {};
  return [without](Stage stage) { return !without.contains(stage); };
}

/// The candidate takes the reference's settings where it has none of its own; a preset of its own sets them all aside.
ConventionOptions candidate_settings(const CompareOptions& options) {
  ConventionOptions settings = options.candidate_conventions;
  if (settings.preset) return settings;
  settings.preset = options.conventions.preset;
  if (settings.settings.contains("rope") && !settings.settings.contains("indexer_rope")) {
    ConventionSettings inherited = options.conventions.settings;
    inherited.erase("indexer_rope");  // its own rope turns the indexer too
    settings.settings.merge(inherited);
    return settings;
  }
  settings.settings.insert(options.conventions.settings.begin(), options.conventions.settings.end());
  return settings;
}

Keep keep_from(const std::string& text) {
  return text == "all" ? Keep::all : text == "failing" ? Keep::failing : Keep::none;
}

ActivationQuantisation activations_from(const std::string& text) {
  if (text == "token-group-128") return ActivationQuantisation::token_group_128;
  if (text == "mx-32") return ActivationQuantisation::mx_32;
  if (text == "per-token") return ActivationQuantisation::per_token;
  return ActivationQuantisation::none;
}

Dtype precision_from(const std::string& text) {
  if (text == "f64") return Dtype::f64;
  if (text == "bf16") return Dtype::bf16;
  if (text == "f16") return Dtype::f16;
  return Dtype::f32;
}

/// Whose rounding points calibrate the allowance: as told, else those of the candidate's preset, else, for the eager
/// torch head, those of transformers' eager modules.
std::string rounding_preset(const CompareOptions& options) {
  if (!options.rounding.empty()) return options.rounding;
  if (options.candidate == "torch") return "transformers";
  return options.candidate_conventions.preset.value_or(options.conventions.preset.value_or("vllm"));
}

reports::SideRecord side_record(const std::string& role, const std::string& head, const std::string& dtype,
                                const ResolvedConventions* conventions) {
  reports::SideRecord side{role, head, dtype, {}};
  if (conventions == nullptr) return side;
  for (const auto& origin : conventions->origins) {
    side.conventions.push_back({origin.key, origin.value, std::string(to_string(origin.level)), origin.source});
  }
  return side;
}

/// The candidate's trace, however it was come by.
struct Candidate {
  Chain chain;
  reports::SideRecord side;
  std::vector<reports::UnmatchedRecord> unmatched;
  std::vector<std::string> notes;
  Dtype precision = Dtype::f32;
};

Candidate run_candidate(const CompareOptions& options, const OpenedCheckpoint& opened, const HeadInput& input,
                        const std::function<bool(Stage)>& wanted, Progress& progress) {
  const ResolvedConventions conventions = resolve(candidate_settings(options), opened.mtpcheck_json);
  HeadChoice choice;
  choice.head = options.candidate;
  choice.dtype = options.dtype.empty() ? default_dtype(options.candidate) : options.dtype;
  choice.activations = activations_from(options.activations);
  choice.rounding_preset = rounding_preset(options);
  choice.threads = options.threads;
  std::optional<OpenedCheckpoint> loaded;
  if (options.candidate_weights == "as-loaded") {
    WeightsChoice weights;
    weights.as_loaded = true;
    weights.loader = options.loader;
    loaded = open_for_heads(options.checkpoint, weights);
  }
  const HeadWeights& weights = loaded ? loaded->weights : opened.weights;
  const auto head = make_head(choice, opened.config, weights, conventions.values);
  progress.say(head->name());
  Candidate candidate;
  candidate.chain = run_chain(*head, input, options.steps, wanted);
  candidate.precision = precision_from(choice.dtype);
  candidate.side = side_record("candidate", head->name(), choice.dtype, &conventions);
  if (loaded) candidate.notes.push_back("the candidate runs on the weights as " + options.loader + " loads them");
  return candidate;
}

Candidate read_candidate(const CompareOptions& options, const OpenedCheckpoint& opened, const HeadInput& input,
                         const std::function<bool(Stage)>& wanted) {
  const std::string path = options.candidate.substr(kDump.size());
  DumpChoice choice{path, options.mapping, options.dump_prefix, options.steps};
  CandidateDump dump = read_candidate_dump(choice, opened.config, input, wanted);
  Candidate candidate;
  candidate.precision = options.dtype.empty() ? dump.precision : precision_from(options.dtype);
  candidate.side =
      side_record("candidate", options.candidate, std::string(precision_name(candidate.precision)), nullptr);
  candidate.chain = std::move(dump.chain);
  candidate.unmatched = std::move(dump.unmatched);
  candidate.notes = std::move(dump.notes);
  return candidate;
}

void write_cases(const CompareOptions& options, const reports::Report& report) {
  std::vector<reports::JUnitCase> cases;
  for (const auto& stage : report.comparison->stages) {
    cases.push_back({"compare", stage.name, stage.reason,
                     fmt::format("{}\nrepro: {}", stage.likely_cause, report.run.command_line)});
  }
  for (const auto& unmatched : report.comparison->unmatched) {
    if (unmatched.side == "candidate") {
      cases.push_back({"compare", unmatched.name, "unmatched", unmatched.suggestion});
    }
  }
  reports::write_junit(options.junit, "mtpcheck compare", cases);
}

void deliver(const CompareOptions& options, const reports::Report& report) {
  if (!options.report.empty()) reports::write_report(options.report, report);
  if (!options.json.empty()) reports::write_atomically(options.json, reports::to_json(report).dump(2) + "\n");
  if (!options.junit.empty()) write_cases(options, report);
  fmt::print("{}", reports::render_report(report, reports::colours_wanted(STDOUT_FILENO)));
  if (!options.report.empty()) fmt::print("report: {}\n", options.report);
}

/// An option that would do nothing is a mistake: nobody finds out that it had no effect.
void refuse_idle_options(const CompareOptions& options) {
  const auto refuse = [](bool idle, const char* why) {
    if (idle) throw usage_error(why);
  };
  if (is_dump(options)) {
    refuse(options.candidate_weights != "as-meant", "--candidate-weights: a dump has none, since it was run elsewhere");
    refuse(options.threads != 0, "--threads: a dump is read, not run");
  } else {
    refuse(!options.mapping.empty(), "--mapping: names the tensors of a --candidate dump:PATH");
    refuse(!options.dump_prefix.empty(), "--dump-prefix: chooses tensors of a --candidate dump:PATH");
  }
  refuse(options.loader_given && options.candidate_weights != "as-loaded",
         "--loader: needs --candidate-weights as-loaded");
}

int run_compare(const CompareOptions& options) {
  if (options.reference != "reference") {
    throw usage_error("--reference " + options.reference + ": the truth is the Eigen head, `reference`");
  }
  refuse_idle_options(options);
  const auto wanted = wanted_stages(options);
  require_apart({{"--report", options.report}, {"--json", options.json}, {"--junit", options.junit}},
                {{"CHECKPOINT", options.checkpoint},
                 {"--inputs", options.inputs},
                 {"--mapping", options.mapping},
                 {"--candidate", is_dump(options) ? options.candidate.substr(kDump.size()) : ""}});
  for (const auto& path : {options.report, options.json, options.junit}) {
    if (!path.empty()) reports::require_writable(path);
  }
  Progress progress;
  progress.say("opening " + options.checkpoint);
  const OpenedCheckpoint opened = open_for_heads(options.checkpoint);
  const ResolvedConventions conventions = resolve(options.conventions, opened.mtpcheck_json);
  const HeadInput input = read_input(options, opened.config);
  Candidate candidate = is_dump(options) ? read_candidate(options, opened, input, wanted)
                                         : run_candidate(options, opened, input, wanted, progress);

  ReferenceSide side{opened.config,
                     opened.weights,
                     conventions.values,
                     rounding_preset(options),
                     activations_from(options.activations),
                     target_norm(opened)};
  ReferenceRuns reference = make_reference_runs(side, candidate.chain.inputs, wanted);
  if (options.no_replay) reference.replay = nullptr;

  ComparisonOptions how;
  how.tolerance = options.tolerance;
  how.tolerance.precision = candidate.precision;
  how.steps = options.steps;
  how.force_selections = options.force_selections;
  how.keep = keep_from(options.keep);
  how.sequence_starts = input.cu_seqlens;
  how.progress = [&progress](std::string_view doing) { progress.say(doing); };

  reports::Report report;
  report.comparison = compare(candidate.chain.trace, reference, how);
  auto& comparison = *report.comparison;
  comparison.notes.insert(comparison.notes.begin(), candidate.notes.begin(), candidate.notes.end());
  comparison.unmatched.insert(comparison.unmatched.end(), candidate.unmatched.begin(), candidate.unmatched.end());
  comparison.pass = comparison.pass && candidate.unmatched.empty();
  report.verb = "compare";
  report.pass = comparison.pass;
  report.run = describe_run();
  report.run.config = opened.checkpoint.config.dump();
  if (!report.pass) report.run.repro = report.run.command_line;
  report.checkpoint = checkpoint_record(opened.checkpoint);
  report.sides = {side_record("reference", "reference f64", "f64", &conventions), candidate.side};
  progress.clear();
  deliver(options, report);
  return report.pass ? 0 : 1;
}

void add_inputs(CLI::App& verb, CompareOptions& options) {
  verb.add_option("CHECKPOINT", options.checkpoint, "Folder with config.json and safetensors files")->required();
  auto* const inputs = verb.add_option(
      "--inputs", options.inputs, "input_ids, positions, hidden_states (safetensors or HDF5), or a target's trace");
  auto* const tokens =
      verb.add_option("--tokens", options.tokens, "Random rows instead")->check(not_negative)->excludes(inputs);
  verb.add_option("--seed", options.seed, "Seed of the random rows")
      ->check(not_negative)
      ->needs(tokens)
      ->capture_default_str();
}

void add_sides(CLI::App& verb, CompareOptions& options) {
  verb.add_option("--reference", options.reference, "The truth: reference, in float64")->capture_default_str();
  verb.add_option("--candidate", options.candidate,
                  "torch, cuda, cuda-emulated, reference, or dump:PATH (safetensors, HDF5, folder of .npy or of ranks)")
      ->capture_default_str();
  verb.add_option("--dtype", options.dtype,
                  "The candidate's precision; default f32 (cuda: bf16), or what the dump holds")
      ->check(CLI::IsMember({"f64", "f32", "bf16", "f16"}));
  verb.add_option("--activations", options.activations, "How inputs of quantised projections are quantised")
      ->check(CLI::IsMember({"none", "token-group-128", "mx-32", "per-token"}))
      ->capture_default_str();
  verb.add_option("--candidate-weights", options.candidate_weights, "as-meant, or as-loaded by --loader")
      ->check(CLI::IsMember({"as-meant", "as-loaded"}))
      ->capture_default_str();
  verb.add_option("--loader", options.loader, "Whose rules of loading")
      ->each([&options](const std::string&) { options.loader_given = true; })
      ->capture_default_str();
  verb.add_option("--steps", options.steps, "Draft steps in a chain; tensors of the second are step1.…")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  verb.add_option("--threads", options.threads, "Of the candidate; 0: all")->check(not_negative)->capture_default_str();
  add_convention_options(verb, options.conventions);
  add_convention_options(verb, options.candidate_conventions, "candidate-");
}

void add_dumps(CLI::App& verb, CompareOptions& options) {
  verb.add_option("--mapping", options.mapping, "JSON file: a dump's names → stages");
  verb.add_option("--dump-prefix", options.dump_prefix, "Only a dump's tensors with this prefix, which is dropped");
  verb.add_option("--without", options.without, "Stages that the candidate does not record")->delimiter(',');
}

void add_policy(CLI::App& verb, CompareOptions& options) {
  verb.add_option("--rounding", options.rounding, "Whose rounding points calibrate the allowance")
      ->check(CLI::IsMember({"vllm", "transformers", "sglang"}));
  verb.add_option("--k", options.tolerance.k, "Allowance: k times the rounded reference's error …")
      ->check(finite_not_negative)
      ->capture_default_str();
  verb.add_option("--floor-ulps", options.tolerance.floor_ulps, "… plus so many ulps at the stage's RMS")
      ->check(finite_not_negative)
      ->capture_default_str();
  verb.add_option("--row-factor", options.tolerance.row_factor, "By how much one row may exceed its own allowance")
      ->check(finite_positive)
      ->capture_default_str();
  verb.add_flag("--force-selections", options.force_selections,
                "Run the reference with the candidate's choices wherever they differ, not only where excused");
  verb.add_flag("--no-replay", options.no_replay, "The cumulative view only");
}

void add_outputs(CLI::App& verb, CompareOptions& options) {
  verb.add_option("--report", options.report, "Write the HDF5 report");
  verb.add_option("--json", options.json, "Write it as JSON");
  verb.add_option("--junit", options.junit, "Write JUnit XML, a case a stage");
  verb.add_option("--keep", options.keep, "Whose tensors go into the report")
      ->check(CLI::IsMember({"none", "failing", "all"}))
      ->capture_default_str();
}

}  // namespace

void add_compare(CLI::App& app, Action& action) {
  auto* const verb = app.add_subcommand("compare", "Compare a head, or another engine's dump, stage by stage");
  auto options = std::make_shared<CompareOptions>();
  add_inputs(*verb, *options);
  add_sides(*verb, *options);
  add_dumps(*verb, *options);
  add_policy(*verb, *options);
  add_outputs(*verb, *options);
  verb->callback([options, &action] { action = [options] { return run_compare(*options); }; });
}

}  // namespace mtpcheck::cli
