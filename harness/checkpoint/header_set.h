#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reference/tensor/tensor.h"

namespace mtpcheck {

/// What is to be known of a checkpoint's files without their data.
struct HeaderSet {
  std::vector<TensorView> tensors;  ///< in any order; `file` and `offset` set, `bytes` may be empty

  /// The files that the index promises (each once, any order); nullopt where there is no index. A tensor in a file that
  /// is not among them never reaches an engine that obeys the index.
  std::optional<std::vector<std::string>> indexed_files;
};

}  // namespace mtpcheck
