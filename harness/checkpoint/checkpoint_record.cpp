#include "harness/checkpoint/checkpoint_record.h"

namespace mtpcheck {

reports::CheckpointRecord checkpoint_record(const Checkpoint& checkpoint) {
  reports::CheckpointRecord record;
  record.path = checkpoint.path.string();
  record.identity = identity_of(checkpoint);
  record.files = static_cast<std::int64_t>(checkpoint.files.size());
  for (const auto& file : checkpoint.files) record.bytes += static_cast<std::int64_t>(file.size);
  return record;
}

}  // namespace mtpcheck
