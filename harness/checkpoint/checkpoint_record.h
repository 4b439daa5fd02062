#pragma once

#include "harness/checkpoint/checkpoint.h"
#include "reports/record/report.h"

namespace mtpcheck {

/// What every report says of its checkpoint: path, identity, number and bytes of files.
reports::CheckpointRecord checkpoint_record(const Checkpoint& checkpoint);

}  // namespace mtpcheck
