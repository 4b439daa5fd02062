#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "harness/loading/audit/rules/rules.h"
#include "harness/loading/audit/words/pieces.h"

namespace mtpcheck {

namespace {

using Id = MeaningProblem::Id;

Severity severity_of(const AuditView& view, const MeaningProblem& problem) {
  const auto blocks = [](const MeaningProblem& other) { return other.blocks; };
  switch (problem.id) {
    case Id::extra_layer:
      return std::ranges::any_of(view.meaning.problems, blocks) ? Severity::warning : Severity::info;
    case Id::unknown_tensor:
    case Id::orphan_scale:
      return Severity::warning;
    case Id::ambiguous:
    case Id::scale_conflict:
      return problem.blocks ? Severity::error : Severity::info;
    default:
      return Severity::error;
  }
}

/// A weight that no tensor gives is an unassigned parameter, two tensors for one are a second write.
std::string id_of(const MeaningProblem& problem) {
  if (problem.id == Id::missing) return "unassigned";
  if (problem.id == Id::ambiguous) return "duplicate-write";
  return std::string(to_string(problem.id));
}

std::string subject_of(const AuditView& view, const MeaningProblem& problem) {
  if (problem.tensors.size() == 1 || problem.weight.empty()) {
    if (!problem.tensors.empty()) return view.tensor(problem.tensors.front()).name;
  }
  return fmt::format("MTP layer {}{}{}", problem.layer, problem.weight.empty() ? "" : " ", problem.weight);
}

void add_missing(const AuditView& view, const std::vector<const MeaningProblem*>& untold,
                 std::vector<Finding>& findings) {
  std::map<std::size_t, std::vector<const MeaningProblem*>> missing;
  for (const auto* problem : untold) missing[problem->layer].push_back(problem);
  constexpr std::size_t kEach = 24;  // more are told in one line
  for (const auto& [layer, problems] : missing) {
    if (problems.size() <= kEach) {
      for (const auto* problem : problems) {
        findings.push_back({"unassigned", Severity::error, Cause::checkpoint, subject_of(view, *problem),
                            problem->found, problem->expected, ""});
      }
      continue;
    }
    std::vector<std::string> names;
    for (std::size_t i = 0; i < kEach; ++i) names.push_back(problems[i]->weight);
    findings.push_back({"unassigned", Severity::error, Cause::checkpoint, fmt::format("MTP layer {}", layer),
                        fmt::format("no tensors for {} weights: {}, …", problems.size(), fmt::join(names, ", ")),
                        "a tensor for each", ""});
  }
}

/// Layers and keys of the weights that this rank's parameters hold.
std::set<std::pair<std::size_t, std::string>> local_weights(const AuditView& view) {
  std::set<std::pair<std::size_t, std::string>> local;
  if (!view.load_returned()) return local;
  for (const Parameter& parameter : view.plan->parameters) {
    if (parameter.origin != Origin::checkpoint) continue;
    for (Piece& piece : pieces_of(parameter)) local.emplace(parameter.layer, std::move(piece.weight));
  }
  return local;
}

/// True where the plan tells the same better: which slice of which parameter. It knows nothing of other ranks' experts.
bool told_by_coverage(const AuditView& view, const std::set<std::pair<std::size_t, std::string>>& local,
                      const MeaningProblem& problem) {
  if (!view.load_returned()) return false;
  if (problem.id == Id::missing) return local.contains({problem.layer, weight_key(problem.weight)});
  return problem.id == Id::layer_not_filled || problem.id == Id::no_mtp_weights;
}

}  // namespace

void add_meaning_findings(const AuditView& view, std::vector<Finding>& findings) {
  const auto local = local_weights(view);
  std::vector<const MeaningProblem*> missing;
  for (const auto& problem : view.meaning.problems) {
    if (told_by_coverage(view, local, problem)) continue;
    if (problem.id == Id::missing) {
      missing.push_back(&problem);
      continue;
    }
    Finding finding;
    finding.id = id_of(problem);
    finding.severity = severity_of(view, problem);
    finding.subject = subject_of(view, problem);
    finding.found = problem.found;
    finding.expected = problem.expected;
    if (problem.tensors.size() > 1) {
      std::vector<std::string> names;
      for (const auto tensor : problem.tensors) names.push_back(view.tensor(tensor).name);
      finding.found += fmt::format(" ({})", fmt::join(names, ", "));
    }
    for (const auto tensor : problem.tensors) {
      if (finding.engine_says.empty()) finding.engine_says = view.said_of_tensor(tensor);
    }
    findings.push_back(std::move(finding));
  }
  add_missing(view, missing, findings);
}

}  // namespace mtpcheck
