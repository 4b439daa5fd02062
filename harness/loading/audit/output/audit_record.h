#pragma once

#include <string>
#include <vector>

#include "harness/loading/audit/audit.h"
#include "reports/junit/junit.h"
#include "reports/record/report.h"

namespace mtpcheck {

/// The audit as a report: findings, and tables of parameters, slices and tensors. `run` is left to the caller.
reports::Report to_report(const Audit& audit, const Checkpoint& checkpoint, bool pass);

/// One case a parameter of the head, failed by the findings about it as grave as `limit`; findings about anything else
/// are cases of their own.
std::vector<reports::JUnitCase> to_junit_cases(const Audit& audit, Severity limit, const std::string& repro);

}  // namespace mtpcheck
