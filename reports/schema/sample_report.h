#pragma once

#include "reports/record/report.h"

namespace mtpcheck::reports {

/// A small failing comparison with every optional part, for tests of what is written and rendered.
Report sample_report();

}  // namespace mtpcheck::reports
