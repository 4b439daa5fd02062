#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "reference/tensor/tensor.h"

namespace mtpcheck {

/// Named tensors in a file: safetensors, where the views point into the mapping, or HDF5, whose datasets of numbers are
/// copied (whole numbers as int64, real ones as float32, or float64 where they are stored as such).
struct TensorFile {
  std::string file;
  std::map<std::string, TensorView> tensors;    ///< HDF5: datasets in groups are "group/name"
  std::map<std::string, std::string> metadata;  ///< HDF5: text and number attributes of the root
  std::shared_ptr<const void> storage;

  const TensorView* find(const std::string& name) const;
};

/// The format is told by the first bytes, not by the name. Throws Error{input} for a file that is neither, or
/// malformed.
TensorFile open_tensor_file(const std::filesystem::path& path);

}  // namespace mtpcheck
