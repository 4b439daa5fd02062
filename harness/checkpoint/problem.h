#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mtpcheck {

/// What can be wrong with the files of a checkpoint.
enum class ProblemId : std::uint8_t {
  index_mismatch,    ///< a tensor is placed otherwise than the index says
  duplicate_tensor,  ///< one name in two shards
  shard_missing,     ///< a file that the index names, or all of them
  truncated,         ///< a tensor ends beyond its file
  corrupt_header,    ///< a safetensors header that is malformed, or contradicts itself or its file
  corrupt_index,     ///< model.safetensors.index.json cannot be read as one
  corrupt_config,    ///< config.json or mtpcheck.json is absent, or cannot be read as JSON
};

/// "index-mismatch", "shard-missing", …: the stable ids of findings.
std::string_view to_string(ProblemId id);

/// True where files cannot be read at all; false where they can be read but contradict each other.
bool makes_unreadable(ProblemId id);

/// One thing that is wrong, as a value: the verb decides whether it is fatal.
struct Problem {
  ProblemId id = ProblemId::corrupt_header;
  std::string file;                     ///< name within the checkpoint
  std::string tensor;                   ///< empty where no tensor is concerned
  std::optional<std::uint64_t> offset;  ///< byte of `file`
  std::string found;
  std::string expected;
  std::string message;  ///< all of it in one line for a person, and what to do
};

/// 5,368,709,120
std::string with_thousands(std::uint64_t number);

}  // namespace mtpcheck
