#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/loading/audit/audit.h"
#include "harness/loading/audit/finding.h"
#include "harness/loading/engines/pairing.h"
#include "harness/loading/rules.h"

namespace mtpcheck {

/// One engine's audit of a checkpoint, with a plan; refers to both.
struct EngineAudit {
  const LoaderRules* loader = nullptr;
  const Audit* audit = nullptr;
};

/// What an engine says of something that is not right.
enum class Voice : std::uint8_t { silent, warns, raises, refuses };

/// "silent", "warns", "raises", "refuses"
std::string_view to_string(Voice voice);

/// How the engine of a finding tells of it.
Voice voice_of(const Finding& finding);

/// A defect and what each engine makes of it.
struct Defect {
  std::string id;                                ///< of the findings
  Severity severity = Severity::error;           ///< the gravest
  std::string subject;                           ///< a row's name, or the findings' own subject
  std::vector<std::optional<Finding>> findings;  ///< of each engine; nullopt: none to it, or it did not get there
};

/// The findings of several audits, those of one id about one thing together, the gravest first. Engines' parameters are
/// one thing where they stand in one row.
std::vector<Defect> defects_of(std::span<const EngineAudit> audits, std::span<const PairedParameters> rows);

}  // namespace mtpcheck
