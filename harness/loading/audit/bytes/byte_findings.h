#pragma once

#include <vector>

#include "harness/loading/audit/rules/view.h"

namespace mtpcheck {

/// Sentinels and numbers that are not finite in every tensor that the head uses, at the granularity of a row or a cell.
/// Does nothing for tensors without bytes. Equal scales, zero biases and zero rows of embedding or head are normal.
void add_byte_findings(const AuditView& view, std::vector<Finding>& findings);

/// Copies of embedding and head that a loader skips and that differ from the shared ones, and a head beside tied
/// embeddings.
void add_copy_findings(const AuditView& view, std::vector<Finding>& findings);

}  // namespace mtpcheck
