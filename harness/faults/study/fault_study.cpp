#include "harness/faults/study/fault_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/faults/study/sightings.h"
#include "harness/heads/make_head.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

// A base checkpoint and what the faultless head does on it.
struct Base {
  std::filesystem::path path;
  OpenedCheckpoint opened;
  Conventions conventions;
  HeadInput input;
  AcceptancePoint acceptance;
};

Base open_base(const FaultStudy& study, const std::string& name) {
  Base base;
  base.path = study.bases / ("checkpoint-" + name);
  base.opened = open_for_heads(base.path);
  base.conventions = resolve_conventions(base.opened.mtpcheck_json, std::nullopt, {}).values;
  base.input = study.rows(base.opened.config);
  const auto head = make_head({.dtype = "f32"}, base.opened.config, base.opened.weights, base.conventions);
  base.acceptance = acceptance_of(*head, study.traces);
  return base;
}

// A head with a fault in it, and how it is fed.
struct Faulty {
  HeadConfig config;
  HeadWeights weights;
  Conventions conventions;
  Deviations deviations;
  HeadInput input;
  StepMistakes steps;
  std::size_t step_count = 1;
};

std::unique_ptr<Head> head_of(const Faulty& faulty, const std::string& dtype) {
  return make_head({.dtype = dtype, .deviations = faulty.deviations}, faulty.config, faulty.weights,
                   faulty.conventions);
}

void compare_and_accept(const Base& base, const FaultStudy& study, const Fault& fault, const Faulty& faulty,
                        FaultResult& result) {
  const auto head = head_of(faulty, "f32");
  const Chain chain = run_mistaken_chain(*head, faulty.input, faulty.step_count, faulty.steps);
  std::vector<HeadInput> right = chain.inputs;
  right.front() = base.input;
  result.compare = look_with_compare({base.opened, base.conventions, base.input}, chain.trace, right, fault);
  const bool fed_wrongly = fault.kind == FaultKind::protocol;
  if (faulty.step_count == 1) {
    result.after = acceptance_of(*head, study.traces, fed_wrongly ? &fault : nullptr, study.target_norm);
  }
  // Whether there is anything to see at all: the truth with and without.
  const Faulty clean{base.opened.config, base.opened.weights, base.conventions, {}, base.input, {}, faulty.step_count};
  const auto with = head_of(faulty, "f64");
  const auto without = head_of(clean, "f64");
  result.effect = differ(run_mistaken_chain(*with, faulty.input, faulty.step_count, faulty.steps).trace,
                         run_mistaken_chain(*without, base.input, faulty.step_count, {}).trace);
}

void study_checkpoint(const Base& base, const FaultStudy& study, const Fault& fault, FaultResult& result) {
  const auto folder = study.scratch / std::string(fault.id);
  inject(fault, base.path, folder);
  result.audit = look_with_audit(folder, fault);
  try {
    const auto loaded = open_for_heads(folder, {.as_loaded = true});
    const auto head = make_head({.dtype = "f32"}, loaded.config, loaded.weights, base.conventions);
    const Chain chain = run_chain(*head, base.input, 1);
    result.compare = look_with_compare({base.opened, base.conventions, base.input}, chain.trace, chain.inputs, fault);
    result.compare.right_place = false;  // a parameter is named by the audit, not by a stage
    result.after = acceptance_of(*head, study.traces);
  } catch (const Error& error) {
    result.compare = {.looked = true, .seen = true, .right_place = false, .evidence = "refused"};
  }
  std::filesystem::remove_all(folder);
}

void study_loader(const Base& base, const FaultStudy& study, const Fault& fault, FaultResult& result) {
  const auto folder = study.scratch / std::string(fault.id);
  inject(fault, base.path, folder);
  {
    const auto read = open_for_heads(folder);
    compare_and_accept(base, study, fault, {base.opened.config, read.weights, base.conventions, {}, base.input, {}, 1},
                       result);
  }
  std::filesystem::remove_all(folder);
}

void study_head(const Base& base, const FaultStudy& study, const Fault& fault, FaultResult& result) {
  Faulty faulty{base.opened.config, base.opened.weights, base.conventions, {}, base.input, {}, 1};
  HeadMistake mistake{faulty.config, faulty.conventions, faulty.deviations};
  fault.head(mistake);
  compare_and_accept(base, study, fault, faulty, result);
}

void study_protocol(const Base& base, const FaultStudy& study, const Fault& fault, FaultResult& result) {
  Faulty faulty{base.opened.config, base.opened.weights, base.conventions, {}, base.input, {}, 1};
  ProtocolMistake mistake{faulty.input, faulty.steps, study.target_norm};
  fault.protocol(mistake);
  faulty.step_count = fault.where.starts_with("step1.") ? 2 : 1;
  compare_and_accept(base, study, fault, faulty, result);
}

void study_metric(const Fault& fault, FaultResult& result) {
  const bool seen = fault.metric();
  Sighting& sighting = fault.caught_by == Catcher::compare ? result.compare : result.accept;
  sighting = {.looked = true, .seen = seen, .right_place = seen, .evidence = std::string(fault.where)};
}

FaultResult study_one(const std::map<std::string, Base>& bases, const FaultStudy& study, const Fault& fault) {
  FaultResult result{
      .id = std::string(fault.id), .kind = fault.kind, .caught_by = fault.caught_by, .where = std::string(fault.where)};
  if (fault.kind == FaultKind::metric) {
    study_metric(fault, result);
    return result;
  }
  const Base& base = bases.at(std::string(fault.base));
  result.before = base.acceptance;
  switch (fault.kind) {
    case FaultKind::checkpoint:
      study_checkpoint(base, study, fault, result);
      break;
    case FaultKind::loader:
      study_loader(base, study, fault, result);
      break;
    case FaultKind::head:
      study_head(base, study, fault, result);
      break;
    case FaultKind::protocol:
    case FaultKind::metric:
      study_protocol(base, study, fault, result);
      break;
  }
  return result;
}

std::string cell(const Sighting& sighting) {
  if (!sighting.looked) return "–";
  if (!sighting.seen) return "not seen";
  return fmt::format("{}{}", sighting.right_place ? "**" : "", sighting.evidence) + (sighting.right_place ? "**" : "");
}

std::string percent(const AcceptancePoint& point, double AcceptancePoint::*member) {
  return point.measured ? fmt::format("{:.2f} %", 100 * (point.*member)) : "–";
}

}  // namespace

const Sighting& FaultResult::catcher() const {
  switch (caught_by) {
    case Catcher::audit:
      return audit;
    case Catcher::compare:
      return compare;
    case Catcher::accept:
      break;
  }
  return accept;
}

Vector target_norm_of(const std::filesystem::path& bases) {
  const auto path = bases / "checkpoint-bf16";
  const auto checkpoint = open_checkpoint(path);
  for (const auto& tensor : checkpoint.headers.tensors) {
    if (tensor.name == "model.norm.weight") return to_f64(tensor);
  }
  throw input_error(
      fmt::format("{}: no model.norm.weight, which the faults of the target's final norm need", path.string()));
}

std::vector<FaultResult> study_faults(const FaultStudy& study, std::span<const Fault> faults) {
  std::map<std::string, Base> bases;
  for (const auto& fault : faults) {
    const std::string name(fault.base);
    if (!name.empty() && !bases.contains(name)) bases.emplace(name, open_base(study, name));
  }
  std::vector<FaultResult> results;
  for (const auto& fault : faults) {
    if (study.progress) study.progress(results.size(), faults.size());
    results.push_back(study_one(bases, study, fault));
  }
  return results;
}

void inject(const Fault& fault, const std::filesystem::path& checkpoint, const std::filesystem::path& folder) {
  if (fault.edit == nullptr) {
    throw usage_error(fmt::format("{} is a mistake of the {}, not of files: there is nothing to write", fault.id,
                                  to_string(fault.kind)));
  }
  EditableCheckpoint editable = read_editable(checkpoint);
  fault.edit(editable);
  write_checkpoint(editable, folder);
}

FaultScore score(std::span<const FaultResult> results) {
  FaultScore score;
  for (const auto& result : results) {
    if (!result.effect) {
      ++score.no_effect;
    } else if (result.caught()) {
      ++score.caught;
    } else {
      ++score.missed;
    }
  }
  return score;
}

std::string to_markdown(std::span<const FaultResult> results, std::span<const Fault> faults) {
  const FaultScore total = score(results);
  std::string text = fmt::format(
      "{} of {} faults with an effect are caught by the command that must catch them, at the right place; {} have no "
      "effect on "
      "this input.\n",
      total.caught, total.caught + total.missed, total.no_effect);
  for (const auto kind :
       {FaultKind::checkpoint, FaultKind::loader, FaultKind::head, FaultKind::protocol, FaultKind::metric}) {
    text += fmt::format(
        "\n## {}\n\n| fault | what | source | must be caught by | audit | compare | accept | greedy | expected |\n"
        "|---|---|---|---|---|---|---|---:|---:|\n",
        to_string(kind));
    for (const auto& result : results) {
      if (result.kind != kind) continue;
      const Fault* const fault = find_fault(faults, result.id);
      text += fmt::format("| `{}` | {} | {} {} | {}: `{}`{} | {} | {} | {} | {} | {} |\n", result.id, fault->what,
                          fault->row, fault->source, to_string(result.caught_by), result.where,
                          !result.effect    ? " (no effect on this input)"
                          : result.missed() ? " **MISSED**"
                                            : "",
                          cell(result.audit), cell(result.compare), cell(result.accept),
                          percent(result.after, &AcceptancePoint::greedy),
                          percent(result.after, &AcceptancePoint::expected));
    }
  }
  return text;
}

}  // namespace mtpcheck
