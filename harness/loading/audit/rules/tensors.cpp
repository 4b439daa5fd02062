#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "harness/loading/audit/rules/rules.h"
#include "harness/loading/audit/words/pieces.h"
#include "harness/loading/audit/words/rename.h"
#include "harness/loading/meaning/mtp_names.h"

namespace mtpcheck {

namespace {

bool was_dropped(Outcome outcome) {
  return outcome == Outcome::unknown_warning || outcome == Outcome::kv_scale_warning ||
         outcome == Outcome::dropped_silently || outcome == Outcome::skipped || outcome == Outcome::ignored;
}

std::string how(Outcome outcome) {
  switch (outcome) {
    case Outcome::skipped:
      return "is skipped";
    case Outcome::ignored:
      return "is ignored";
    case Outcome::dropped_silently:
      return "is dropped without a word";
    default:
      return "is dropped with a warning";
  }
}

/// Tensors that some write reads, as numbers or as scales.
std::set<std::uint32_t> tensors_read(const LoadPlan& plan) {
  std::set<std::uint32_t> read;
  for (const Write& write : plan.writes) {
    if (write.conversion.kind != Conversion::Kind::fill) read.insert(write.tensor);
    if (write.conversion.scale_tensor != kNone) read.insert(write.conversion.scale_tensor);
  }
  return read;
}

/// Weights that are wanted and that no tensor gives, with the shape they should have.
struct Wanted {
  std::string parameter;
  std::string weight;
  Shape shape;
};

std::vector<Wanted> wanted_of(const AuditView& view) {
  std::vector<Wanted> wanted;
  for (std::uint32_t i = 0; i < view.plan->parameters.size(); ++i) {
    const Parameter& parameter = view.plan->parameters[i];
    const Coverage& coverage = (*view.coverage)[i];
    if (coverage.complete() || parameter.role == Role::kv_scale) continue;
    for (const Piece& piece : pieces_of(parameter)) {
      const bool missing = std::ranges::any_of(
          coverage.missing, [&piece](const Box& box) { return !intersection(box, piece.box).empty(); });
      if (!missing) continue;
      const bool plain = parameter.experts.empty() && view.ranks == 1;
      Shape shape = parameter.shape;
      if (plain && !parameter.parts.empty() && !shape.empty()) shape[0] = piece.box.rows.size();
      const auto suffix = parameter.name.rfind('.');
      const std::string tail = parameter.experts.empty() ? parameter.name.substr(suffix) : ".weight";
      wanted.push_back({parameter.name, piece.weight + tail, plain ? shape : Shape{}});
    }
  }
  return wanted;
}

/// Unknown tensor → what it should probably be called.
std::map<std::uint32_t, Wanted> renames(const AuditView& view, const std::vector<std::uint32_t>& unknown) {
  const auto wanted = wanted_of(view);
  std::vector<RenameCandidate> names;
  std::vector<RenameCandidate> targets;
  names.reserve(unknown.size());
  targets.reserve(wanted.size());
  for (const auto index : unknown) {
    const TensorView& tensor = view.tensor(index);
    const auto name = mtp_name(tensor.name, view.config.num_hidden_layers);
    names.push_back({name ? std::string(name->rest) : tensor.name, tensor.shape});
  }
  for (const auto& each : wanted) targets.push_back({each.weight, each.shape});
  std::map<std::uint32_t, Wanted> result;
  for (const auto& pair : likely_renames(names, targets)) result.emplace(unknown[pair.unknown], wanted[pair.wanted]);
  return result;
}

void add_pending(const AuditView& view, const std::set<std::uint32_t>& read, std::vector<Finding>& findings) {
  for (std::uint32_t i = 0; i < view.plan->tensors.size(); ++i) {
    if (view.plan->tensors[i].outcome != Outcome::buffered || read.contains(i)) continue;
    findings.push_back({"pending-pair", Severity::error,
                        view.problem_of(i) != nullptr ? Cause::checkpoint : Cause::loader, view.tensor(i).name,
                        "kept aside for the other half of a weight and its scale, which never comes",
                        "both halves, or a weight that needs no scale", view.said_of_tensor(i)});
  }
}

bool looks_like_mtp(const std::string& name) {
  return name.find("mtp") != std::string::npos || name.find("nextn") != std::string::npos;
}

Finding dropped_finding(const AuditView& view, std::uint32_t index) {
  const auto use = view.meaning.uses[index];
  const bool needed = use == TensorUse::weight || use == TensorUse::scale;
  Finding finding;
  finding.id = "unknown-tensor";
  finding.severity = needed ? Severity::error : Severity::warning;
  finding.cause = needed ? Cause::loader : Cause::checkpoint;
  finding.subject = view.tensor(index).name;
  finding.found = fmt::format("{} {}", kind_of(view.tensor(index)), how(view.plan->tensors[index].outcome));
  finding.expected = use == TensorUse::kv_scale ? "a name under which the engine takes KV-cache scales"
                     : needed                   ? "loaded"
                                                : "a name that the head knows";
  finding.engine_says = view.said_of_tensor(index);
  return finding;
}

/// Weights that the target model's own parameters stand for: the loader leaves their tensors to the target's.
std::set<std::uint32_t> left_to_target(const AuditView& view) {
  std::set<std::string> keys;
  for (const Parameter& parameter : view.plan->parameters) {
    if (parameter.origin != Origin::target) continue;
    for (Piece& piece : pieces_of(parameter)) keys.insert(std::move(piece.weight));
  }
  std::set<std::uint32_t> tensors;
  if (keys.contains("embed_tokens")) tensors.insert(view.meaning.embed_tokens.tensor);
  for (const MeantWeight& weight : view.meaning.weights) {
    if (keys.contains(weight_key(weight.name))) tensors.insert(weight.tensor);
  }
  return tensors;
}

/// Tensors that the engine does not take though they are the MTP layer's. Those of a layer that it ignores as a whole
/// are told by `layer-not-filled`.
std::vector<std::uint32_t> dropped_of(const AuditView& view, const std::set<std::uint32_t>& read) {
  std::vector<std::uint32_t> dropped;
  const auto shared = left_to_target(view);
  for (std::uint32_t i = 0; i < view.plan->tensors.size(); ++i) {
    const Outcome outcome = view.plan->tensors[i].outcome;
    const auto use = view.meaning.uses[i];
    if (!was_dropped(outcome) || read.contains(i) || shared.contains(i) || use == TensorUse::skipped_copy) continue;
    const bool of_layer = use != TensorUse::unrelated && use != TensorUse::not_listed;
    const auto name = mtp_name(view.tensor(i).name, view.config.num_hidden_layers);
    const bool extra = name && name->layer >= view.meaning.layers;
    const bool whole_layer = outcome == Outcome::ignored && name;
    if (of_layer && !extra && !whole_layer) dropped.push_back(i);
  }
  return dropped;
}

/// The name with a * for an expert's number.
std::string without_expert(const std::string& name) {
  constexpr std::string_view kExperts = ".experts.";
  const auto begin = name.find(kExperts);
  if (begin == std::string::npos) return name;
  const auto number = begin + kExperts.size();
  const auto end = name.find_first_not_of("0123456789", number);
  if (end == number || end == std::string::npos) return name;
  return name.substr(0, number) + "*" + name.substr(end);
}

/// Findings that differ in an expert's number only become one.
void join_experts(std::vector<Finding>& findings) {
  std::map<std::pair<std::string, std::string>, std::vector<Finding>> alike;
  std::vector<std::pair<std::string, std::string>> order;
  for (Finding& finding : findings) {
    const std::pair key{without_expert(finding.subject), finding.found + finding.expected};
    if (!alike.contains(key)) order.push_back(key);
    alike[key].push_back(std::move(finding));
  }
  findings.clear();
  for (const auto& key : order) {
    auto& group = alike[key];
    Finding& first = group.front();
    if (group.size() > 1) {
      first.found += fmt::format(" ({} tensors, the first {})", group.size(), first.subject);
      first.subject = key.first;
    }
    findings.push_back(std::move(first));
  }
}

void add_dropped(const AuditView& view, const std::set<std::uint32_t>& read, std::vector<Finding>& findings) {
  const auto dropped = dropped_of(view, read);
  const auto renamed = renames(view, dropped);
  std::vector<Finding> own;
  for (const auto index : dropped) {
    Finding finding = dropped_finding(view, index);
    if (const auto pair = renamed.find(index); pair != renamed.end()) {
      finding.severity = Severity::error;
      finding.found += fmt::format(", while {} received nothing", pair->second.parameter);
      finding.expected = fmt::format("probably named {}", pair->second.weight);
    }
    own.push_back(std::move(finding));
  }
  join_experts(own);
  findings.insert(findings.end(), own.begin(), own.end());
}

/// Wrong prefixes: nothing of the layer arrived, and names that resemble it lie in the files.
void add_nearest_names(const AuditView& view, std::vector<Finding>& findings) {
  const auto nothing = std::ranges::find(findings, "nothing-matched", &Finding::id);
  if (nothing == findings.end()) return;
  std::string names;
  std::size_t count = 0;
  for (std::uint32_t i = 0; i < view.headers.tensors.size(); ++i) {
    const std::string& name = view.tensor(i).name;
    if (view.meaning.uses[i] != TensorUse::unrelated || !looks_like_mtp(name)) continue;
    if (++count <= 3) names += (names.empty() ? "" : ", ") + name;
  }
  if (count == 0) {
    nothing->id = view.meaning.weights.size() > 1 ? "layer-not-filled" : "no-mtp-weights";
  } else {
    nothing->found += fmt::format("; {} names resemble one: {}", count, names);
  }
}

/// Elements that a write reads, each counted once.
std::size_t elements_read(const Write& write) {
  const std::array<std::size_t, 3> extents{write.box.experts.size(), write.box.rows.size(), write.box.cols.size()};
  std::size_t elements = 1;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const SourceAxis& walked = write.axes[axis];
    if (walked.stride == 0) continue;
    elements *= (walked.start + extents[axis] - 1) / walked.repeat - walked.start / walked.repeat + 1;
  }
  return elements;
}

/// Tensors that are larger than what the engine takes of them.
void add_cut(const AuditView& view, std::vector<Finding>& findings) {
  if (view.ranks > 1) return;  // the other ranks read the rest
  std::vector<std::size_t> read(view.headers.tensors.size(), 0);
  for (const Write& write : view.plan->writes) {
    if (write.conversion.kind != Conversion::Kind::fill) read[write.tensor] += elements_read(write);
  }
  for (std::uint32_t i = 0; i < view.plan->tensors.size(); ++i) {
    const TensorView& tensor = view.tensor(i);
    const bool cut = read[i] > 0 && read[i] < tensor.elements();
    if (!cut || view.plan->tensors[i].outcome != Outcome::loaded || view.problem_of(i) != nullptr) continue;
    findings.push_back({"shape-mismatch", Severity::error, Cause::loader, tensor.name,
                        fmt::format("{}, of which {} of {} elements are read and the rest is cut off", kind_of(tensor),
                                    read[i], tensor.elements()),
                        "every element read, or a shape that is refused", view.said_of_tensor(i)});
  }
}

}  // namespace

void add_tensor_findings(const AuditView& view, std::vector<Finding>& findings) {
  if (view.plan == nullptr || view.plan->refusal) return;
  const auto read = tensors_read(*view.plan);
  add_pending(view, read, findings);
  add_dropped(view, read, findings);
  add_cut(view, findings);
  add_nearest_names(view, findings);
}

}  // namespace mtpcheck
