#pragma once

#include <string>
#include <vector>

#include "harness/checkpoint/checkpoint.h"
#include "harness/checkpoint/safetensors/index.h"

namespace mtpcheck {

/// Where the files contradict each other or their index: `index-mismatch` and `duplicate-tensor`. Tensors of files that
/// could not be read are not missed.
std::vector<Problem> inconsistencies_of(const Checkpoint& checkpoint, const SafetensorsIndex* index,
                                        const std::string& index_file);

}  // namespace mtpcheck
