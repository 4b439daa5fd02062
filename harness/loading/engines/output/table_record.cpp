#include "harness/loading/engines/output/table_record.h"

#include <fmt/format.h>

#include "harness/checkpoint/checkpoint_record.h"
#include "harness/loading/audit/output/audit_record.h"
#include "harness/loading/engines/output/table_text.h"
#include "reports/record/append.h"

namespace mtpcheck {
namespace {

std::int64_t as_count(std::size_t elements) { return static_cast<std::int64_t>(elements); }

void add_findings(const EngineTable& table, std::span<const EngineAudit> audits, reports::Report& report) {
  for (std::size_t i = 0; i < audits.size(); ++i) {
    for (const auto& finding : audits[i].audit->findings) {
      report.findings.push_back({finding.id, std::string(to_string(finding.severity)), finding.subject,
                                 fmt::format("{}; expected: {}; caused by {}; {}: {}", finding.found, finding.expected,
                                             to_string(finding.cause), table.engines[i],
                                             finding.engine_says.empty() ? "nothing" : finding.engine_says)});
    }
  }
}

void add_engine_cells(const EngineTable& table, const EngineRow& row, reports::Report& report) {
  for (std::size_t i = 0; i < table.engines.size(); ++i) {
    const EngineCell& cell = row.cells[i];
    reports::append_row(report, "engine_parameters", "a weight, or what is fused of several, in one engine",
                        {{"name", row.parameters.name, ""},
                         {"engine", table.engines[i], ""},
                         {"status", in_words(cell), ""},
                         {"elements", as_count(cell.elements)},
                         {"written", as_count(cell.written)}});
  }
}

void add_relations(const EngineTable& table, const EngineRow& row, reports::Report& report) {
  for (const RowRelation& each : row.relations) {
    reports::append_row(report, "engine_relations", "what two engines hold of it",
                        {{"name", row.parameters.name, ""},
                         {"first", table.engines[each.between.first], ""},
                         {"second", table.engines[each.between.second], ""},
                         {"relation", std::string(to_string(each.relation)), ""},
                         {"same", as_count(each.agreement.same)},
                         {"different", as_count(each.agreement.different)},
                         {"only_first", as_count(each.agreement.only_first)},
                         {"only_second", as_count(each.agreement.only_second)},
                         {"neither", as_count(each.agreement.neither)}});
  }
}

void add_defects(const EngineTable& table, std::span<const EngineAudit> audits, reports::Report& report) {
  for (const Defect& defect : table.defects) {
    for (std::size_t i = 0; i < audits.size(); ++i) {
      reports::append_row(report, "engine_defects", "a defect and what an engine makes of it",
                          {{"id", defect.id, ""},
                           {"severity", std::string(to_string(defect.severity)), ""},
                           {"subject", defect.subject, ""},
                           {"engine", table.engines[i], ""},
                           {"verdict", in_words(defect, i, *audits[i].audit), ""}});
    }
  }
}

}  // namespace

reports::Report to_report(const EngineTable& table, std::span<const EngineAudit> audits, const Checkpoint& checkpoint,
                          bool pass) {
  reports::Report report;
  report.verb = "audit";
  report.pass = pass;
  report.checkpoint = checkpoint_record(checkpoint);
  add_findings(table, audits, report);
  for (const HeadRelation& heads : table.heads) {
    reports::append_row(report, "engine_heads", "would two engines run the same head?",
                        {{"first", table.engines[heads.between.first], ""},
                         {"second", table.engines[heads.between.second], ""},
                         {"verdict", std::string(to_string(heads.verdict)), ""},
                         {"why", heads.why, ""}});
  }
  add_defects(table, audits, report);
  for (const EngineRow& row : table.rows) {
    add_engine_cells(table, row, report);
    add_relations(table, row, report);
  }
  return report;
}

std::vector<reports::JUnitCase> to_junit_cases(const EngineTable& table, std::span<const EngineAudit> audits,
                                               Severity limit, const std::string& repro) {
  std::vector<reports::JUnitCase> cases;
  for (std::size_t i = 0; i < audits.size(); ++i) {
    for (reports::JUnitCase& check : to_junit_cases(*audits[i].audit, limit, repro)) {
      check.suite = fmt::format("audit {}", table.engines[i]);
      cases.push_back(std::move(check));
    }
  }
  for (const HeadRelation& heads : table.heads) {
    const std::string words = in_words(table, heads);
    reports::JUnitCase check{
        "audit heads",
        fmt::format("{} and {}", table.engines[heads.between.first], table.engines[heads.between.second]), "", words};
    if (heads.verdict == HeadVerdict::different) {
      check.failure = words;
      check.details = "repro: " + repro;
    }
    cases.push_back(std::move(check));
  }
  return cases;
}

}  // namespace mtpcheck
