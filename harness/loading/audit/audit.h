#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/checkpoint/checkpoint.h"
#include "harness/loading/audit/finding.h"
#include "harness/loading/meaning/meaning.h"
#include "harness/loading/plan/coverage.h"
#include "harness/loading/plan/plan.h"
#include "harness/loading/rules.h"
#include "reference/model/config.h"

namespace mtpcheck {

/// What to audit, and in whose eyes.
struct AuditRequest {
  const LoaderRules* loader = nullptr;  ///< nullptr: only what is wrong in the files themselves
  Topology topology;
  std::string kv_cache_dtype = "auto";
  bool config_unchecked = false;  ///< see LoadRequest
};

/// How far a parameter was filled.
enum class ParameterStatus : std::uint8_t {
  loaded,           ///< every element
  partial,          ///< some
  unassigned,       ///< none
  runtime_default,  ///< none, and the engine puts something there later: KV-cache scales, a tied or shared head
};

/// "loaded", "partial", "unassigned", "runtime-default"
std::string_view to_string(ParameterStatus status);

/// What an audit has seen; refers to nothing but itself.
struct Audit {
  Meaning meaning;
  std::optional<LoadPlan> plan;           ///< nullopt: no loader
  std::vector<Coverage> coverage;         ///< of the plan's parameters
  std::vector<ParameterStatus> statuses;  ///< of the plan's parameters
  std::vector<Finding> findings;          ///< the gravest first, else in the order of the rules

  /// True where no finding is as grave as `limit`.
  bool passes(Severity limit) const;
};

/// Plans the load, resolves what the files mean, and states every difference. Reads the tensors' bytes where the
/// checkpoint has them. config  parsed from checkpoint.config; what the engine was told afterwards may be changed in it
Audit audit(const Checkpoint& checkpoint, const HeadConfig& config, const AuditRequest& request);

/// What is wrong with the files themselves; all that can be said of a checkpoint that cannot be read.
std::vector<Finding> file_findings_of(const Checkpoint& checkpoint);

}  // namespace mtpcheck
