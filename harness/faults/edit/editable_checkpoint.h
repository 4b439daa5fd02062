#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "reference/tensor/tensor.h"

namespace mtpcheck {

struct EditableTensor {
  std::string name;
  std::string file;
  Tensor tensor;
};

/// A small checkpoint in memory, to be broken on purpose and written out again.
struct EditableCheckpoint {
  nlohmann::json config;
  nlohmann::json conventions;  ///< mtpcheck.json; null where there is none
  std::vector<EditableTensor> tensors;
  /// Tensor → file, as the index says; nullopt: no index. `write` derives it from the tensors unless it was edited.
  std::optional<std::map<std::string, std::string>> index;
  /// Called on the finished folder: faults of the files themselves (a truncated shard).
  std::vector<std::function<void(const std::filesystem::path&)>> spoil;

  EditableTensor* find(const std::string& name);
  /// The tensor of that name; throws Error{input} when the checkpoint has none: the fault does not fit it.
  EditableTensor& at(const std::string& name);
};

/// Copies a checkpoint into memory. Throws Error{input} for one that is not sound or has headers only.
EditableCheckpoint read_editable(const std::filesystem::path& path);

/// Writes config, index and shards into `folder`, which is made, and removed again where the writing fails. The index
/// is that of the tensors, or the edited one.
void write_checkpoint(const EditableCheckpoint& checkpoint, const std::filesystem::path& folder);

// Edits. Each throws Error{input} where a tensor that it names is not there.

void drop(EditableCheckpoint& checkpoint, const std::string& name);
void rename(EditableCheckpoint& checkpoint, const std::string& from, const std::string& to);
/// Renames every tensor whose name begins with `prefix`.
void rename_prefix(EditableCheckpoint& checkpoint, const std::string& prefix, const std::string& to);
void add(EditableCheckpoint& checkpoint, const std::string& name, const std::string& beside, Tensor tensor);
/// Exchanges the bytes of two tensors of one shape and dtype.
void exchange(EditableCheckpoint& checkpoint, const std::string& a, const std::string& b);

/// float32 values of a tensor, changed by `change` and stored back in its dtype (BF16, F32 or F8_E4M3, to nearest).
void transform(Tensor& tensor, const std::function<void(std::vector<float>&)>& change);
/// A copy in another dtype: BF16, F32, F8_E4M3, F8_E5M2 is not made.
Tensor converted(const Tensor& tensor, Dtype dtype);
/// Slab `index` of the first dimension.
Tensor slab(const Tensor& tensor, std::size_t index);
/// Rows [first, first + count) of a matrix (or elements of a vector).
Tensor rows(const Tensor& tensor, std::size_t first, std::size_t count);
/// The last two dimensions exchanged.
Tensor transposed(const Tensor& tensor);

}  // namespace mtpcheck
