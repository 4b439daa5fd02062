#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "harness/loading/engines/engine_table.h"

namespace mtpcheck {

/// The table: `engines[]`, `parameters[] {name, layer, engines[] {engine, parameters[], status, says, elements,
/// written}, relations[] {between[2], relation, same, different, only_first, only_second, neither}}`, `defects[] {id,
/// severity, subject, engines[] {engine, verdict, finding}}`, `heads[] {between[2], verdict, why}`.
///
/// audits  those that the table was made of
nlohmann::ordered_json to_json(const EngineTable& table, std::span<const EngineAudit> audits);

}  // namespace mtpcheck
