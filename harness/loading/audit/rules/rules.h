#pragma once

#include <vector>

#include "harness/checkpoint/checkpoint.h"
#include "harness/loading/audit/finding.h"
#include "harness/loading/audit/rules/view.h"

/// The rules of an audit. Each appends what it has to say; none depends on another having run.
namespace mtpcheck {

/// What is wrong with the files: index, shards, headers, names in two shards.
void add_file_findings(const Checkpoint& checkpoint, std::vector<Finding>& findings);

/// What is wrong with what the files say, whatever a loader makes of it.
void add_meaning_findings(const AuditView& view, std::vector<Finding>& findings);

/// What the config says and the tensors contradict.
void add_config_findings(const AuditView& view, std::vector<Finding>& findings);

/// Refusal, exception, and what a load leaves in each parameter: nothing, a part, two tensors.
void add_coverage_findings(const AuditView& view, std::vector<Finding>& findings);

/// Tensors that do not arrive: unknown, dropped, skipped, waiting for a partner, or cut.
void add_tensor_findings(const AuditView& view, std::vector<Finding>& findings);

/// Tensors that arrive as other numbers: converted, unscaled, or with another grid of scales.
void add_conversion_findings(const AuditView& view, std::vector<Finding>& findings);

}  // namespace mtpcheck
