#pragma once

#include <string>

#include "harness/loading/audit/audit.h"

namespace mtpcheck {

/// The audit for a terminal: how many parameters are in which state, those that are not whole, and the findings.
std::string to_text(const Audit& audit, const Checkpoint& checkpoint, bool colours);

}  // namespace mtpcheck
