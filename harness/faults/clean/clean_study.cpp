#include "harness/faults/clean/clean_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "harness/faults/study/sightings.h"
#include "harness/heads/make_head.h"
#include "harness/heads/opened_checkpoint.h"
#include "harness/inputs/random_input.h"
#include "harness/loading/audit/audit.h"
#include "harness/loading/rules.h"
#include "harness/parity/comparison/comparison.h"
#include "harness/parity/reference_side/reference_side.h"
#include "harness/parity/trace/chain.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

// The plainest layout of some weights, and what its head accepts under each preset.
struct PlainHead {
  EditableCheckpoint files;
  OpenedCheckpoint opened;
  std::map<std::string, AcceptancePoint> acceptance;
};

Conventions conventions_of(const std::string& preset) { return resolve_conventions({}, preset, {}).values; }

std::unique_ptr<Head> head_of_variation(const OpenedCheckpoint& opened, const CleanVariation& variation) {
  HeadChoice choice;
  choice.dtype = kept_as_stored(variation.format) ? "f32" : "bf16";
  choice.rounding_preset = variation.preset;
  return make_head(choice, opened.config, opened.weights, conventions_of(variation.preset));
}

void audit_variation(const std::filesystem::path& folder, const CleanVariation& variation, CleanResult& result) {
  const Checkpoint checkpoint = open_checkpoint(folder);
  const HeadConfig config = parse_head_config(checkpoint.config, (folder / "config.json").string());
  const Audit audited = audit(checkpoint, config, {.loader = find_loader("vllm"), .topology = variation.topology});
  for (const auto& finding : audited.findings) {
    if (finding.severity != Severity::info) result.alarms.push_back("audit: " + describe(finding));
  }
}

void compare_variation(const PlainHead& plain, Head& head, const CleanVariation& variation, std::size_t rows,
                       CleanResult& result) {
  const HeadInput input = random_head_input(plain.opened.config, rows, variation.rows_seed);
  const Chain chain = run_chain(head, input, 1);
  const ReferenceSide side{.config = plain.opened.config,
                           .weights = plain.opened.weights,
                           .conventions = conventions_of(variation.preset),
                           .rounding_preset = variation.preset};
  ComparisonOptions options;
  options.sequence_starts = input.cu_seqlens;
  options.tolerance.precision = kept_as_stored(variation.format) ? Dtype::f32 : Dtype::bf16;
  const auto record = compare(chain.trace, make_reference_runs(side, chain.inputs), options);
  if (record.pass) return;
  result.alarms.push_back(
      fmt::format("compare: {}, in replay {}", record.first_divergent_stage, record.first_failing_stage_in_replay));
}

void accept_variation(PlainHead& plain, Head& head, const CleanVariation& variation, const CleanStudy& study,
                      CleanResult& result) {
  if (study.traces.empty()) return;
  auto& before = plain.acceptance[variation.preset];
  if (!before.measured) before = acceptance_of(*head_of_variation(plain.opened, variation), study.traces);
  const AcceptancePoint after = acceptance_of(head, study.traces);
  constexpr double kRounding = 1e-6;
  constexpr double kLoss = 0.005;
  const bool silent = kept_as_stored(variation.format)
                          ? after.greedy == before.greedy && std::fabs(after.expected - before.expected) <= kRounding
                          : after.greedy >= before.greedy - kLoss && after.expected >= before.expected - kLoss;
  if (silent) return;
  result.alarms.push_back(fmt::format("accept: greedy {:.6f} of {:.6f}, expected {:.8f} of {:.8f}", after.greedy,
                                      before.greedy, after.expected, before.expected));
}

}  // namespace

std::vector<CleanResult> study_clean(const CleanStudy& study, std::span<const CleanVariation> variations) {
  const EditableCheckpoint base = read_editable(study.base);
  std::map<std::pair<WeightFormat, std::uint64_t>, PlainHead> plain_heads;
  std::vector<CleanResult> results;
  for (const auto& variation : variations) {
    if (study.progress) study.progress(results.size(), variations.size());
    CleanResult& result = results.emplace_back(CleanResult{variation.name(), {}});
    const auto folder = study.scratch / fmt::format("clean-{}", results.size());
    try {
      PlainHead& plain = plain_heads[{variation.format, variation.weights_seed}];
      if (plain.files.tensors.empty()) {
        plain.files = plain_checkpoint(base, variation.format, variation.weights_seed);
        const auto at = study.scratch / fmt::format("plain-{}", plain_heads.size());
        write_checkpoint(plain.files, at);
        plain.opened = open_for_heads(at);
      }
      EditableCheckpoint files = laid_out(plain.files, variation);
      if (study.spoil) study.spoil(files);
      write_checkpoint(files, folder);
      audit_variation(folder, variation, result);
      const auto loaded = open_for_heads(folder, {.as_loaded = true});
      const auto head = head_of_variation(loaded, variation);
      compare_variation(plain, *head, variation, study.rows, result);
      accept_variation(plain, *head, variation, study, result);
    } catch (const Error& error) {
      result.alarms.push_back(fmt::format("refused: {}", error.what()));
    }
    std::filesystem::remove_all(folder);
  }
  return results;
}

std::size_t false_alarms(std::span<const CleanResult> results) {
  return static_cast<std::size_t>(
      std::ranges::count_if(results, [](const CleanResult& result) { return !result.alarms.empty(); }));
}

std::string to_markdown(std::span<const CleanVariation> variations, std::span<const CleanResult> results) {
  std::string text = fmt::format(
      "\n## clean variations\n\n{} clean variations of checkpoint-bf16, all distinct, raised {} false alarm{}: audit "
      "on each "
      "variation's rank, compare and accept on the weights as loaded, against the plainest layout of the same "
      "weights.\n"
      "\n| weights | variations | packed experts | `layers.{{L}}` names | several shards | tensor parallel | expert "
      "parallel | transformers / vllm / sglang | alarms |\n|---|---:|---:|---:|---:|---:|---:|---|---:|\n",
      results.size(), false_alarms(results), false_alarms(results) == 1 ? "" : "s");
  for (const auto format : {WeightFormat::bf16, WeightFormat::fp8_block, WeightFormat::fp8_channel,
                            WeightFormat::fp8_tensor, WeightFormat::mxfp8}) {
    const auto count = [&](auto wanted) {
      return std::ranges::count_if(variations, [&](const auto& v) { return v.format == format && wanted(v); });
    };
    const auto preset = [&](std::string_view name) { return count([&](const auto& v) { return v.preset == name; }); };
    std::size_t alarms = 0;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (variations[i].format == format && !results[i].alarms.empty()) ++alarms;
    }
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} / {} / {} | {} |\n", to_string(format),
                        count([](const auto&) { return true; }), count([](const auto& v) { return v.packed; }),
                        count([](const auto& v) { return v.layer_names; }),
                        count([](const auto& v) { return v.shards > 1; }),
                        count([](const auto& v) { return v.topology.tp_size > 1 && !v.topology.expert_parallel; }),
                        count([](const auto& v) { return v.topology.expert_parallel; }), preset("transformers"),
                        preset("vllm"), preset("sglang"), alarms);
  }
  for (const auto& result : results) {
    for (const auto& alarm : result.alarms) text += fmt::format("\n`{}`: {}\n", result.name, alarm);
  }
  return text;
}

}  // namespace mtpcheck
