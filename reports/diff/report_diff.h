#pragma once

#include <string>
#include <vector>

#include "reports/record/report.h"

namespace mtpcheck::reports {

/// What became of a stage from one report to the other.
enum class Change : std::uint8_t { same, better, worse, fixed, broken, only_before, only_after };
std::string_view to_string(Change change);

struct StageChange {
  std::string name;
  Change change = Change::same;
  double rms_before = 0, rms_after = 0;
  double used_before = 0, used_after = 0;  ///< share of the allowance
};

struct ValueChange {
  std::string what;  ///< "candidate.rope", "checkpoint.identity", "curve[2].rate"
  std::string before;
  std::string after;
};

struct ReportDiff {
  std::vector<ValueChange> circumstances;  ///< checkpoint, heads, dtypes, conventions, tolerance, host
  std::vector<StageChange> stages;         ///< in the order of the later report, then those that only the earlier has
  std::vector<ValueChange> values;         ///< cells of the verbs' own tables, and findings, that differ
  std::vector<ValueChange> fallen;         ///< acceptances that got worse
  bool worse = false;  ///< a stage broke or got worse, an acceptance fell, or the verdict went from pass to fail
};

/// Compares two reports: two commits, two machines, two quantisations. A stage is better or worse when the error (RMS)
/// changed by more than `ratio` times; its verdict decides before that. An acceptance fell when it is below the
/// interval of the earlier one, or its own interval below the earlier one. Throws Error{usage} for reports of different
/// verbs.
ReportDiff diff(const Report& before, const Report& after, double ratio = 1.1);

std::string render_diff(const ReportDiff& diff, bool colours);

}  // namespace mtpcheck::reports
