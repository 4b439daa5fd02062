#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/loading/engines/engine_table.h"
#include "reports/junit/junit.h"
#include "reports/record/report.h"

namespace mtpcheck {

/// The table as a report: the findings of every engine, and tables `engine_parameters` (a row of the table an engine),
/// `engine_relations` (a row a pair), `engine_defects` (a defect an engine) and `engine_heads` (a pair). `run` is left
/// to the caller.
reports::Report to_report(const EngineTable& table, std::span<const EngineAudit> audits, const Checkpoint& checkpoint,
                          bool pass);

/// The cases of each engine's audit, in a suite of the engine's name, and one for each two engines: failed where their
/// heads differ.
std::vector<reports::JUnitCase> to_junit_cases(const EngineTable& table, std::span<const EngineAudit> audits,
                                               Severity limit, const std::string& repro);

}  // namespace mtpcheck
