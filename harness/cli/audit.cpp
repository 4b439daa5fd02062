// mtpcheck audit CHECKPOINT: what an engine would make of the files, and what is wrong with them.

#include "harness/loading/audit/audit.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/checkpoint/bounded_json.h"
#include "harness/cli/number_checks.h"
#include "harness/cli/output_paths.h"
#include "harness/cli/run_record.h"
#include "harness/cli/verbs.h"
#include "harness/loading/audit/digests.h"
#include "harness/loading/audit/output/audit_json.h"
#include "harness/loading/audit/output/audit_record.h"
#include "harness/loading/audit/output/audit_text.h"
#include "harness/loading/engines/engine_table.h"
#include "harness/loading/engines/output/table_json.h"
#include "harness/loading/engines/output/table_record.h"
#include "harness/loading/engines/output/table_text.h"
#include "reference/tensor/error.h"
#include "reports/atomic_file.h"
#include "reports/schema/report_file.h"
#include "reports/terminal/text_table.h"

namespace mtpcheck::cli {
namespace {

struct AuditOptions {
  std::string checkpoint;
  std::vector<std::string> loaders{"vllm"};
  std::size_t tp_size = 1;
  std::size_t tp_rank = 0;
  bool expert_parallel = false;
  std::string expert_map;
  std::string kv_cache_dtype = "auto";
  bool headers_only = false;
  bool digest = false;
  std::string against;
  std::string fail_on = "error";
  std::string json;
  std::string junit;
  std::string report;
};

std::vector<std::int64_t> read_expert_map(const std::string& path) {
  if (path.empty()) return {};
  const auto json = read_bounded_json(path);
  const auto is_slot = [](const nlohmann::json& slot) {
    return slot.is_number_integer() && slot.get<std::int64_t>() >= -1;
  };
  if (!json.is_array() || !std::ranges::all_of(json, is_slot)) {
    throw input_error(path + ": an expert map is a JSON array: of each expert its slot on this rank, or -1");
  }
  return json.get<std::vector<std::int64_t>>();
}

/// The loaders that were asked for; none for "none".
std::vector<const LoaderRules*> loaders_of(const AuditOptions& options) {
  std::vector<const LoaderRules*> found;
  if (options.loaders == std::vector<std::string>{"none"}) return found;
  for (const auto& name : options.loaders) {
    if (name == "none") throw usage_error("--loader none: stands alone, or not at all");
    found.push_back(&require_loader(name));
    if (std::ranges::count(found, found.back()) > 1) throw usage_error("--loader " + name + ": is there twice");
  }
  return found;
}

AuditRequest request_of(const AuditOptions& options, const LoaderRules* loader) {
  AuditRequest request;
  request.loader = loader;
  request.topology = {options.tp_size, options.tp_rank, options.expert_parallel, read_expert_map(options.expert_map)};
  request.kv_cache_dtype = options.kv_cache_dtype;
  return request;
}

void without_bytes(Checkpoint& checkpoint) {
  checkpoint.headers_only = true;
  for (auto& tensor : checkpoint.headers.tensors) tensor.bytes = {};
}

/// Files that cannot be read: the findings go to the JSON all the same, and the first is the error.
void refuse_unreadable(const Checkpoint& checkpoint, const AuditOptions& options) {
  const auto unreadable =
      std::ranges::find_if(checkpoint.problems, [](const Problem& p) { return makes_unreadable(p.id); });
  if (unreadable == checkpoint.problems.end()) return;
  if (!options.json.empty()) {
    nlohmann::ordered_json json = {{"checkpoint", options.checkpoint}, {"verdict", "fail"}};
    for (const auto& finding : file_findings_of(checkpoint)) json["findings"].push_back(to_json(finding));
    reports::write_atomically(options.json, json.dump(1) + "\n");
  }
  throw input_error(located(checkpoint, *unreadable));
}

HeadConfig config_of(const Checkpoint& checkpoint, const AuditOptions& options) {
  try {
    const bool folder = std::filesystem::is_directory(checkpoint.path);
    return parse_head_config(checkpoint.config, folder ? (checkpoint.path / "config.json").string()
                                                       : checkpoint.path.string() + ": config.json");
  } catch (const Error& error) {
    if (!options.json.empty()) {
      const Finding finding{
          "corrupt-config", Severity::error, Cause::checkpoint, "config.json", error.what(), "a config of HY V4's", ""};
      const nlohmann::ordered_json json = {{"checkpoint", options.checkpoint},
                                           {"verdict", "fail"},
                                           {"findings", nlohmann::ordered_json::array({to_json(finding)})}};
      reports::write_atomically(options.json, json.dump(1) + "\n");
    }
    throw;
  }
}

Severity limit_of(const AuditOptions& options) {
  return options.fail_on == "warning" ? Severity::warning : Severity::error;
}

/// The run of a report; whoever fails gets a command to run again.
reports::RunRecord run_of(const Checkpoint& checkpoint, bool pass) {
  reports::RunRecord record = describe_run();
  record.config = checkpoint.config.dump();
  if (!pass) record.repro = record.command_line;
  return record;
}

int conclude(bool pass) {
  fmt::print("audit: {}\n", pass ? "pass" : "fail");
  if (!pass) fmt::print("repro: {}\n", describe_run().command_line);
  return pass ? 0 : 1;
}

/// One loader, or none: everything that is known of it.
int run_one(const AuditOptions& options, const Checkpoint& checkpoint, const LoaderRules* loader) {
  const AuditRequest request = request_of(options, loader);
  Audit result = audit(checkpoint, config_of(checkpoint, options), request);
  std::vector<std::string> digests;
  if (options.digest || !options.against.empty()) digests = digests_of(result, checkpoint);
  if (!options.against.empty()) {
    auto differing = compare_digests(result, digests, read_digests(options.against));
    result.findings.insert(result.findings.begin(), differing.begin(), differing.end());
  }
  const bool pass = result.passes(limit_of(options));
  fmt::print("{}", to_text(result, checkpoint, reports::colours_wanted(STDOUT_FILENO)));
  if (!options.json.empty()) {
    auto json = to_json(result, checkpoint, request, digests);
    json["fail_on"] = options.fail_on;
    json["verdict"] = pass ? "pass" : "fail";
    reports::write_atomically(options.json, json.dump(1) + "\n");
  }
  if (!options.junit.empty()) {
    reports::write_junit(options.junit, "mtpcheck audit",
                         to_junit_cases(result, limit_of(options), describe_run().command_line));
  }
  if (!options.report.empty()) {
    reports::Report report = to_report(result, checkpoint, pass);
    report.run = run_of(checkpoint, pass);
    reports::write_report(options.report, report);
  }
  return conclude(pass);
}

/// Several: each engine's audit, and all of them side by side.
int run_several(const AuditOptions& options, const Checkpoint& checkpoint,
                const std::vector<const LoaderRules*>& loaders) {
  const HeadConfig config = config_of(checkpoint, options);
  std::vector<Audit> audits;
  audits.reserve(loaders.size());
  std::vector<EngineAudit> engines;
  for (const LoaderRules* const loader : loaders) {
    audits.push_back(audit(checkpoint, config, request_of(options, loader)));
    engines.push_back({loader, &audits.back()});
  }
  const EngineTable table = engine_table(checkpoint, config, engines);
  const bool pass = passes(table, engines, limit_of(options));
  fmt::print("{}", to_text(table, engines, checkpoint, reports::colours_wanted(STDOUT_FILENO)));
  if (!options.json.empty()) {
    nlohmann::ordered_json json = {{"checkpoint", checkpoint.path.string()}, {"comparison", to_json(table, engines)}};
    for (const EngineAudit& engine : engines) {
      const auto digests = options.digest ? digests_of(*engine.audit, checkpoint) : std::vector<std::string>{};
      json["audits"].push_back(to_json(*engine.audit, checkpoint, request_of(options, engine.loader), digests));
    }
    json["fail_on"] = options.fail_on;
    json["verdict"] = pass ? "pass" : "fail";
    reports::write_atomically(options.json, json.dump(1) + "\n");
  }
  if (!options.junit.empty()) {
    reports::write_junit(options.junit, "mtpcheck audit",
                         to_junit_cases(table, engines, limit_of(options), describe_run().command_line));
  }
  if (!options.report.empty()) {
    reports::Report report = to_report(table, engines, checkpoint, pass);
    report.run = run_of(checkpoint, pass);
    reports::write_report(options.report, report);
  }
  return conclude(pass);
}

int run_audit(const AuditOptions& options) {
  require_apart(
      {{"--json", options.json}, {"--junit", options.junit}, {"--report", options.report}},
      {{"CHECKPOINT", options.checkpoint}, {"--expert-map", options.expert_map}, {"--against", options.against}});
  for (const auto* path : {&options.json, &options.junit, &options.report}) {
    if (!path->empty()) reports::require_writable(*path);
  }
  const auto loaders = loaders_of(options);
  if (!options.against.empty() && loaders.size() != 1) throw usage_error("--against needs one --loader");
  Checkpoint checkpoint = open_checkpoint(options.checkpoint);
  refuse_unreadable(checkpoint, options);
  if (options.headers_only) without_bytes(checkpoint);
  if (!options.against.empty() && checkpoint.headers_only) {
    throw usage_error("--against needs the tensors' bytes, and only headers are read");
  }
  if (options.digest && checkpoint.headers_only) {
    throw usage_error("--digest needs the tensors' bytes, and only headers are read");
  }
  if (options.digest && loaders.empty())
    throw usage_error("--digest needs a --loader: it is of an engine's parameters");
  if (loaders.size() > 1) return run_several(options, checkpoint, loaders);
  return run_one(options, checkpoint, loaders.empty() ? nullptr : loaders.front());
}

}  // namespace

void add_audit(CLI::App& app, Action& action) {
  auto* const verb = app.add_subcommand("audit", "Does every element of the draft head come from where it should?");
  auto options = std::make_shared<AuditOptions>();
  verb->add_option("CHECKPOINT", options->checkpoint, "A checkpoint's directory, or a file of `mtpcheck headers`")
      ->required();
  verb->add_option("--loader", options->loaders, "Whose loaders, side by side: vllm, vllm@0.33.0, …; or none")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  verb->add_option("--tp-size", options->tp_size, "Ranks of the tensor-parallel group")
      ->check(not_negative)
      ->capture_default_str();
  verb->add_option("--tp-rank", options->tp_rank, "The rank to audit")->check(not_negative)->capture_default_str();
  verb->add_flag("--expert-parallel", options->expert_parallel, "Experts are dealt out whole over the same group");
  verb->add_option("--expert-map", options->expert_map,
                   "JSON file, an array: of each expert its slot on this rank, or -1");
  verb->add_option("--kv-cache-dtype", options->kv_cache_dtype, "auto or fp8")
      ->check(CLI::IsMember({"auto", "fp8"}))
      ->capture_default_str();
  verb->add_flag("--headers-only", options->headers_only, "Do not look at the tensors' bytes");
  verb->add_flag("--digest", options->digest, "SHA-256 of every parameter as the engine would hold it");
  verb->add_option("--against", options->against, "Digests of a running engine, to be held to the prediction");
  verb->add_option("--fail-on", options->fail_on, "error or warning")
      ->check(CLI::IsMember({"error", "warning"}))
      ->capture_default_str();
  verb->add_option("--json", options->json, "Write everything as JSON");
  verb->add_option("--junit", options->junit, "Write JUnit XML");
  verb->add_option("--report", options->report, "Write an HDF5 report");
  verb->callback([options, &action] { action = [options] { return run_audit(*options); }; });
}

}  // namespace mtpcheck::cli
