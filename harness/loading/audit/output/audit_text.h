#pragma once

#include <string>

#include "harness/loading/audit/audit.h"
#include "reports/terminal/text_table.h"

namespace mtpcheck {

/// "checkpoint-bf16: 50 tensors in 3 files, headers only"
std::string files_in_words(const Checkpoint& checkpoint);

/// "26 parameters: 25 loaded 1 partial"; the audit has a plan.
std::string statuses_in_words(const Audit& audit);

/// A finding's severity as a colour.
reports::Colour colour_of(Severity severity);

/// The audit for a terminal: how many parameters are in which state, those that are not whole, and the findings.
std::string to_text(const Audit& audit, const Checkpoint& checkpoint, bool colours);

}  // namespace mtpcheck
