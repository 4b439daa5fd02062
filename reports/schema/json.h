#pragma once

#include <nlohmann/json_fwd.hpp>

#include "reports/record/report.h"

namespace mtpcheck::reports {

/// The report as JSON, keys in the order of the records: `verdict`, `first_divergent_stage`,
/// `first_failing_stage_in_replay`, `unmatched`, `stages[] {name, verdict, max_abs, relative_l2, …, replay {…}}`, …
/// Numbers that JSON cannot hold (NaN, infinities) become null. Kept tensors stay in the HDF5 file.
nlohmann::ordered_json to_json(const Report& report);

}  // namespace mtpcheck::reports
