#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "harness/checkpoint/checkpoint.h"
#include "harness/checkpoint/safetensors/header.h"
#include "harness/checkpoint/safetensors/index.h"

namespace mtpcheck {

/// A safetensors file as it was found: its header, or what is wrong with it.
struct FoundFile {
  CheckpointFile file;
  std::variant<SafetensorsHeader, Problem> header;
};

/// The files of a checkpoint, in any order, become its `files`, `headers` and `problems`; an index decides what is
/// listed and what is missing.
void assemble(Checkpoint& checkpoint, std::vector<FoundFile> found, std::shared_ptr<const SafetensorsIndex> index,
              const std::string& index_file);

}  // namespace mtpcheck
