#pragma once

#include <string>
#include <vector>

#include "harness/cli/accept/sweep.h"
#include "harness/heads/opened_checkpoint.h"
#include "reports/record/report.h"

namespace mtpcheck::cli {

/// The report of a sweep, to be filled: the one at --report, when it is of this very sweep, so that what it has is not
/// computed again; else a new one. A sweep is the same when the checkpoint, the traces' contents and every option that
/// changes a figure are; which heads, dtypes, presets and ways of sampling it goes over may differ.
reports::Report begin_report(const AcceptOptions& options, const OpenedCheckpoint& first,
                             const std::vector<TraceGroup>& groups);

/// Notes what a head is made of. Throws Error{input} when the report has a head of this name from another checkpoint.
void append_head(reports::Report& report, const SweptHead& head, const OpenedCheckpoint& opened,
                 const ResolvedConventions& conventions);

/// Writes the report's figures as JSON.
void write_json(const AcceptOptions& options, const reports::Report& report);

}  // namespace mtpcheck::cli
