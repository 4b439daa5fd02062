#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/loading/audit/audit.h"

namespace mtpcheck {

/// SHA-256 of each parameter's bytes as the engine would hold them when the load returns, parallel to the plan's
/// parameters; empty where some of them are random or there are no bytes to compute them from.
std::vector<std::string> digests_of(const Audit& audit, const Checkpoint& checkpoint);

/// The audit with the field names of the recorded cases: `tensors[] {name, dtype, shape, file, outcome, loads[] {param,
/// shard, expert, written}}` in read order, `loaded`, `unassigned`, `warnings`, `exception`, `construction_error`,
/// `params[] {name, dtype, shape, status, coverage, missing[], slices[] {tensor, rows, file, offset, length}, sha256}`,
/// `findings[] {id, severity, caused_by, subject, found, expected, engine_says}`.
///
/// digests  of digests_of, or empty
nlohmann::ordered_json to_json(const Audit& audit, const Checkpoint& checkpoint, const AuditRequest& request,
                               const std::vector<std::string>& digests);

/// One finding.
nlohmann::ordered_json to_json(const Finding& finding);

}  // namespace mtpcheck
