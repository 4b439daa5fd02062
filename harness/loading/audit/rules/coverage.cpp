#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/loading/audit/rules/rules.h"
#include "harness/loading/audit/words/pieces.h"
#include "harness/loading/audit/words/rename.h"
#include "harness/loading/meaning/mtp_names.h"

namespace mtpcheck {

namespace {

bool is_head(const Parameter& parameter) { return parameter.name.ends_with("shared_head.head.weight"); }

bool is_embedding(const Parameter& parameter) { return parameter.name.ends_with("embed_tokens.weight"); }

bool files_hold(const AuditView& view, std::string_view name) {
  return std::ranges::any_of(view.headers.tensors, [name](const TensorView& tensor) { return tensor.name == name; });
}

/// The files give every piece of the missing boxes: then it is the loader that loses them.
Cause cause_of(const AuditView& view, const Parameter& parameter, const Coverage& coverage) {
  for (const Piece& piece : pieces_of(parameter)) {
    const bool missing = std::ranges::any_of(
        coverage.missing, [&piece](const Box& box) { return !intersection(box, piece.box).empty(); });
    if (missing && !view.is_meant(parameter.layer, piece.weight)) return Cause::checkpoint;
  }
  return Cause::loader;
}

/// Where the head of a layer received nothing: shared later, tied, or lost.
Severity severity_of_head(const AuditView& view, const Parameter& parameter) {
  const bool in_files = files_hold(view, "lm_head.weight");
  if (view.config.tie_word_embeddings && !in_files) return Severity::info;
  return parameter.layer > 0 && in_files ? Severity::warning : Severity::error;
}

struct Gap {
  std::uint32_t parameter;
  const Coverage* coverage;
};

Finding finding_of(const AuditView& view, const Gap& gap) {
  const Parameter& parameter = view.plan->parameters[gap.parameter];
  const Coverage& coverage = *gap.coverage;
  Finding finding;
  finding.subject = parameter.name;
  finding.engine_says = view.said_of_parameter(gap.parameter);
  finding.cause = cause_of(view, parameter, coverage);
  const std::string keeps = fmt::format("keeps {}", to_string(parameter.initial));
  if (coverage.written == 0) {
    finding.id = "unassigned";
    finding.found = fmt::format("nothing was written: all {} elements, {}", coverage.elements, keeps);
    finding.expected = "written from the checkpoint";
  } else {
    finding.id = "partial";
    finding.found = fmt::format("{} of {} elements were never written: {}; {}", coverage.elements - coverage.written,
                                coverage.elements, in_words(parameter, coverage.missing), keeps);
    finding.expected = "every element written";
  }
  if (is_head(parameter) && coverage.written == 0) {
    finding.severity = severity_of_head(view, parameter);
    if (finding.severity == Severity::info) finding.found += "; tied to the embedding, shared by the target later";
    if (finding.severity == Severity::warning) finding.found += "; lm_head goes to the first MTP layer only";
  }
  return finding;
}

/// KV-cache scales may stay at their placeholder, by their kind; but not one of a pair alone.
bool lacks_its_partner(const AuditView& view, std::uint32_t index) {
  const std::string& name = view.plan->parameters[index].name;
  for (const auto& [own, other] : {std::pair{"k_scale", "v_scale"}, std::pair{"v_scale", "k_scale"}}) {
    if (!name.ends_with(own)) continue;
    const auto partner = view.plan->find_parameter(name.substr(0, name.size() - std::string_view(own).size()) + other);
    return partner && (*view.coverage)[*partner].complete();
  }
  return false;
}

std::vector<Gap> gaps_of(const AuditView& view) {
  std::vector<Gap> gaps;
  for (std::uint32_t i = 0; i < view.plan->parameters.size(); ++i) {
    const Coverage& coverage = (*view.coverage)[i];
    if (coverage.complete() || view.plan->parameters[i].origin != Origin::checkpoint) continue;
    if (view.plan->parameters[i].role == Role::kv_scale && !lacks_its_partner(view, i)) continue;
    gaps.push_back({i, &coverage});
  }
  return gaps;
}

/// Layers of which no parameter but the head received anything.
std::set<std::size_t> empty_layers(const AuditView& view) {
  std::set<std::size_t> empty;
  std::set<std::size_t> filled;
  for (std::uint32_t i = 0; i < view.plan->parameters.size(); ++i) {
    const Parameter& parameter = view.plan->parameters[i];
    if (is_head(parameter) || is_embedding(parameter) || parameter.origin != Origin::checkpoint) continue;
    ((*view.coverage)[i].written > 0 ? filled : empty).insert(parameter.layer);
  }
  for (const auto layer : filled) empty.erase(layer);
  return empty;
}

Finding empty_layer_finding(const AuditView& view, std::size_t layer, bool all) {
  const bool in_files = std::ranges::any_of(view.meaning.weights, [layer](const MeantWeight& weight) {
    return weight.layer == layer && weight_key(weight.name) != "lm_head";
  });
  Finding finding;
  finding.id = all ? "nothing-matched" : "layer-not-filled";
  finding.cause = in_files ? Cause::loader : Cause::checkpoint;
  finding.subject = fmt::format("model.layers.{}", view.config.num_hidden_layers + layer);
  const auto kept = std::ranges::count_if(view.plan->parameters, [layer](const Parameter& parameter) {
    return parameter.layer == layer && parameter.origin == Origin::checkpoint && parameter.role != Role::kv_scale;
  });
  finding.found = in_files ? fmt::format(
                                 "the files hold MTP layer {}, and the loader takes none of it: {} parameters "
                                 "keep what they held",
                                 layer, kept)
                           : fmt::format("no tensor of MTP layer {} under any name that the loader knows", layer);
  finding.expected = fmt::format("{} MTP layers filled", view.meaning.layers);
  for (std::uint32_t i = 0; i < view.plan->parameters.size(); ++i) {
    if (view.plan->parameters[i].layer == layer && finding.engine_says.empty() && !is_head(view.plan->parameters[i])) {
      finding.engine_says = view.said_of_parameter(i);
    }
  }
  return finding;
}

/// MTP layers that the engine builds, whatever the config says.
std::size_t layers_built(const AuditView& view) {
  std::size_t layers = 1;
  for (const Parameter& parameter : view.plan->parameters) layers = std::max(layers, parameter.layer + 1);
  return layers;
}

/// Layers that are declared and filled in the files, and that the engine has no place for.
void add_unbuilt_layers(const AuditView& view, std::vector<Finding>& findings) {
  const std::size_t built = layers_built(view);
  for (std::size_t layer = built; layer < view.meaning.layers; ++layer) {
    std::size_t tensors = 0;
    std::string first;
    for (const TensorView& tensor : view.headers.tensors) {
      const auto name = mtp_name(tensor.name, view.config.num_hidden_layers);
      if (!name || name->layer != layer) continue;
      if (tensors++ == 0) first = tensor.name;
    }
    if (tensors == 0) continue;
    findings.push_back({"extra-layer", Severity::warning, Cause::loader, first,
                        fmt::format("{} tensors of MTP layer {}, of which the engine, that builds {}, reads none",
                                    tensors, layer, built),
                        fmt::format("{} layers, as num_nextn_predict_layers says", view.meaning.layers), ""});
  }
}

void add_gaps(const AuditView& view, std::vector<Finding>& findings) {
  const auto empty = empty_layers(view);
  const bool all = empty.size() == layers_built(view);
  add_unbuilt_layers(view, findings);
  for (const auto layer : empty) findings.push_back(empty_layer_finding(view, layer, all && layer == 0));
  for (const Gap& gap : gaps_of(view)) {
    const Parameter& parameter = view.plan->parameters[gap.parameter];
    if (empty.contains(parameter.layer) && !is_head(parameter) && !is_embedding(parameter)) continue;
    Finding finding = finding_of(view, gap);
    if (parameter.role == Role::kv_scale) {
      finding.severity = Severity::warning;
      finding.found = "keeps its placeholder −1 while the other of key and value has a scale";
    }
    findings.push_back(std::move(finding));
  }
}

/// True where both tensors are there with the same bytes.
bool same_bytes(const TensorView& a, const TensorView& b) {
  return !a.bytes.empty() && a.dtype == b.dtype && a.shape == b.shape && std::ranges::equal(a.bytes, b.bytes);
}

void add_overwritten(const AuditView& view, std::vector<Finding>& findings) {
  for (std::uint32_t i = 0; i < view.plan->parameters.size(); ++i) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<Box>> lost;
    for (const Overwritten& overwritten : (*view.coverage)[i].overwritten) {
      const Write& earlier = view.plan->writes[overwritten.earlier];
      const Write& later = view.plan->writes[overwritten.later];
      if (earlier.conversion.kind == Conversion::Kind::fill || earlier.tensor == later.tensor) continue;
      lost[{earlier.tensor, later.tensor}].push_back(overwritten.box);
    }
    for (const auto& [tensors, boxes] : lost) {
      const TensorView& first = view.tensor(tensors.first);
      const TensorView& last = view.tensor(tensors.second);
      const bool same = same_bytes(first, last);
      // Gate and up have one input scale between them in engines that keep one an expert.
      const bool harmless = same || view.plan->parameters[i].role == Role::input_scale;
      findings.push_back({"duplicate-write", harmless ? Severity::info : Severity::error, Cause::checkpoint,
                          view.plan->parameters[i].name,
                          fmt::format("{} is written by {} ({}) and again by {} ({}){}",
                                      in_words(view.plan->parameters[i], joined(boxes)), first.name, first.file,
                                      last.name, last.file, same ? ", with the same numbers" : ", which wins"),
                          "one tensor for each slice", ""});
    }
  }
}

/// A size of the config that the ranks cannot share.
bool is_indivisible(const AuditView& view, const Refusal& refusal) {
  const auto size = view.config_json.find(refusal.config_key);
  return view.ranks > 1 && size != view.config_json.end() && size->is_number_unsigned() &&
         size->get<std::size_t>() % view.ranks != 0;
}

void add_exception(const AuditView& view, const EngineException& exception, std::vector<Finding>& findings) {
  if (exception.where == EngineException::Where::strict_check) return;
  const TensorView& tensor = view.tensor(exception.tensor);
  const bool alone = exception.where == EngineException::Where::weight_loader;
  findings.push_back(
      {"load-stops", Severity::error, view.problem_of(exception.tensor) != nullptr ? Cause::checkpoint : Cause::loader,
       tensor.name,
       fmt::format("{} {}", kind_of(tensor), alone ? "is not loaded, and the load fails" : "stops the load"),
       "a tensor that its parameter takes", fmt::format("{}: {}", exception.type, exception.message)});
}

void add_stop(const AuditView& view, std::vector<Finding>& findings) {
  if (view.plan->refusal) {
    const Refusal& refusal = *view.plan->refusal;
    const bool indivisible = is_indivisible(view, refusal);
    findings.push_back({indivisible ? "indivisible" : "config-refused", Severity::error, Cause::checkpoint,
                        refusal.config_key, refusal.message, "a config from which the model can be built",
                        fmt::format("{}: {}", refusal.type, refusal.message)});
  }
  if (view.plan->exception) add_exception(view, *view.plan->exception, findings);
  for (const EngineException& exception : view.plan->swallowed) add_exception(view, exception, findings);
}

}  // namespace

void add_coverage_findings(const AuditView& view, std::vector<Finding>& findings) {
  if (view.plan == nullptr) return;
  add_stop(view, findings);
  if (view.plan->refusal) return;
  add_overwritten(view, findings);
  if (view.load_returned()) add_gaps(view, findings);
}

}  // namespace mtpcheck
