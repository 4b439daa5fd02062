#include "harness/loading/audit/output/audit_record.h"

#include <fmt/format.h>

#include <map>

#include "harness/checkpoint/checkpoint_record.h"
#include "harness/loading/audit/words/pieces.h"
#include "reports/record/append.h"

namespace mtpcheck {

namespace {

void add_parameters(const Audit& audit, reports::Report& report) {
  for (std::size_t i = 0; i < audit.statuses.size(); ++i) {
    const Parameter& parameter = audit.plan->parameters[i];
    const Coverage& coverage = audit.coverage[i];
    reports::append_row(report, "parameters", "a parameter of the engine's head",
                        {{"name", parameter.name, ""},
                         {"dtype", std::string(torch_name(parameter.dtype)), ""},
                         {"shape", to_string(parameter.shape), ""},
                         {"status", std::string(to_string(audit.statuses[i])), ""},
                         {"elements", static_cast<std::int64_t>(coverage.elements)},
                         {"written", static_cast<std::int64_t>(coverage.written)},
                         {"missing", in_words(parameter, coverage.missing), ""}});
  }
}

double covered_share(const Box& box, const std::vector<Box>& missing) {
  std::size_t absent = 0;
  for (const Box& hole : missing) absent += intersection(box, hole).elements();
  return box.empty() ? 1 : 1 - static_cast<double>(absent) / static_cast<double>(box.elements());
}

/// The map of coverage that the HTML page draws: a cell a piece, and so one an expert and half.
void add_coverage(const Audit& audit, reports::Report& report) {
  for (std::size_t i = 0; i < audit.statuses.size(); ++i) {
    const Parameter& parameter = audit.plan->parameters[i];
    for (const Piece& piece : pieces_of(parameter)) {
      const bool routed = !parameter.experts.empty();
      reports::append_row(report, "coverage", "a piece of a parameter, and how much of it is written",
                          {{"param", parameter.name, ""},
                           {"shard", piece.weight.substr(piece.weight.rfind('.') + 1), ""},
                           {"expert", routed ? static_cast<std::int64_t>(parameter.experts[piece.box.experts.begin])
                                             : std::int64_t{-1}},
                           {"covered", covered_share(piece.box, audit.coverage[i].missing)}});
    }
  }
}

void add_slices(const Audit& audit, const HeaderSet& headers, reports::Report& report) {
  for (std::size_t i = 0; i < audit.statuses.size(); ++i) {
    for (const VisibleSlice& slice : audit.coverage[i].visible) {
      const Write& write = audit.plan->writes[slice.write];
      const TensorView& tensor = headers.tensors[write.tensor];
      const ByteRange range = bytes_read(write, tensor);
      reports::append_row(report, "slices", "a part of a parameter and the bytes that it comes from",
                          {{"parameter", audit.plan->parameters[i].name, ""},
                           {"slice", in_words(audit.plan->parameters[i], slice.box), ""},
                           {"tensor", tensor.name, ""},
                           {"file", tensor.file, ""},
                           {"offset", static_cast<std::int64_t>(range.offset), "B"},
                           {"length", static_cast<std::int64_t>(range.length), "B"}});
    }
  }
}

void add_tensors(const Audit& audit, const HeaderSet& headers, reports::Report& report) {
  for (std::size_t i = 0; i < headers.tensors.size(); ++i) {
    const PlannedTensor& planned = audit.plan->tensors[i];
    if (planned.outcome == Outcome::ignored && planned.load_count == 0) continue;  // the backbone's
    reports::append_row(report, "tensors", "a tensor of the checkpoint and what became of it",
                        {{"name", headers.tensors[i].name, ""},
                         {"file", headers.tensors[i].file, ""},
                         {"outcome", std::string(to_string(planned.outcome)), ""},
                         {"loads", static_cast<std::int64_t>(planned.load_count)}});
  }
}

}  // namespace

reports::Report to_report(const Audit& audit, const Checkpoint& checkpoint, bool pass) {
  reports::Report report;
  report.verb = "audit";
  report.pass = pass;
  report.checkpoint = checkpoint_record(checkpoint);
  for (const auto& finding : audit.findings) {
    report.findings.push_back(
        {finding.id, std::string(to_string(finding.severity)), finding.subject,
         fmt::format("{}; expected: {}; caused by {}; engine: {}", finding.found, finding.expected,
                     to_string(finding.cause), finding.engine_says.empty() ? "nothing" : finding.engine_says)});
  }
  if (audit.plan) {
    add_parameters(audit, report);
    add_coverage(audit, report);
    add_slices(audit, checkpoint.headers, report);
    add_tensors(audit, checkpoint.headers, report);
  }
  return report;
}

std::vector<reports::JUnitCase> to_junit_cases(const Audit& audit, Severity limit, const std::string& repro) {
  std::vector<reports::JUnitCase> cases;
  std::map<std::string, std::size_t> by_subject;
  if (audit.plan) {
    for (const auto& parameter : audit.plan->parameters) {
      by_subject.emplace(parameter.name, cases.size());
      cases.push_back({"audit", parameter.name, "", ""});
    }
  }
  for (const auto& finding : audit.findings) {
    const auto [place, fresh] = by_subject.emplace(finding.subject, cases.size());
    if (fresh) cases.push_back({"audit", finding.subject, "", ""});
    reports::JUnitCase& check = cases[place->second];
    if (finding.severity >= limit && check.failure.empty()) check.failure = describe(finding);
    check.details += describe(finding) + "\n";
  }
  for (auto& check : cases) {
    if (!check.failure.empty()) check.details += "repro: " + repro;
  }
  return cases;
}

}  // namespace mtpcheck
