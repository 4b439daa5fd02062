#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/checkpoint/header_set.h"
#include "harness/checkpoint/problem.h"
#include "harness/checkpoint/safetensors/index.h"

namespace mtpcheck {

/// One safetensors file of a checkpoint.
struct CheckpointFile {
  std::string name;
  std::uint64_t size = 0;
  std::uint64_t header_length = 0;  ///< as the file states it
  bool listed = true;               ///< false: there is an index, and it does not name this file
};

/// A checkpoint in Hugging Face's layout: config.json and model.safetensors, or an index and its shards.
///
/// Files are mapped read-only and nothing is copied; copying the value shares the mappings. Only headers have been
/// read.
// nlohmann::json allocates while it destroys a deep value, which its size here rules out.
struct Checkpoint {            // NOLINT(bugprone-exception-escape)
  std::filesystem::path path;  ///< as given: a directory, or a file that `mtpcheck headers` wrote
  nlohmann::json config;       ///< config.json; null where that is a problem
  nlohmann::json conventions;  ///< mtpcheck.json; null where there is none

  /// Every tensor of every file that could be read, in the order in which engines read them: files in natural order
  /// (those that the index does not list among them), the tensors of a file by name.
  HeaderSet headers;
  std::vector<CheckpointFile> files;              ///< in natural order
  std::shared_ptr<const SafetensorsIndex> index;  ///< nullptr where there is none that can be read
  std::vector<Problem> problems;                  ///< what is wrong; see require_sound
  bool headers_only = false;                      ///< the views have no bytes
  std::shared_ptr<const void> storage;
};

/// Opens a directory, or a headers file. What is wrong with config, index and shards is in `problems`. Throws
/// Error{input} where `path` does not exist or is neither.
Checkpoint open_checkpoint(const std::filesystem::path& path);

/// The message of one of its problems, with the path in front.
std::string located(const Checkpoint& checkpoint, const Problem& problem);

/// Throws Error{input} with the first problem, if there is any: for the verbs that need a checkpoint without one.
void require_sound(const Checkpoint& checkpoint);

/// Identity of a checkpoint for reports: 16 hexadecimal digits over config.json and all headers (names,
/// dtypes, shapes, places, file sizes), not over the data.
std::string identity_of(const Checkpoint& checkpoint);

}  // namespace mtpcheck
