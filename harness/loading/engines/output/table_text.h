#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/loading/engines/engine_table.h"

namespace mtpcheck {

/// The engines' names as columns need them: "vllm", or "vllm@0.33.0" where two versions of one engine are there.
std::vector<std::string> short_names(const EngineTable& table);

/// "partial, silent", "loaded", "refused"
std::string in_words(const EngineCell& cell);

/// What the engine of that index makes of a defect: "silent", "warns", "raises", "refuses"; "(stopped)" and "(refused)"
/// where it ended before it could; "–": to it there is none.
std::string in_words(const Defect& defect, std::size_t engine, const Audit& audit);

/// "vllm 0.33.0 and sglang 0.5.23: different heads: enorm"
std::string in_words(const EngineTable& table, const HeadRelation& heads);

/// The table for a terminal: how each engine fares, the parameters that are not whole or not the same everywhere (the
/// others counted), the defects with what each engine says of them, and for each two engines whether their heads are
/// the same.
///
/// audits  those that the table was made of
std::string to_text(const EngineTable& table, std::span<const EngineAudit> audits, const Checkpoint& checkpoint,
                    bool colours);

}  // namespace mtpcheck
