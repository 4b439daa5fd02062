#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "reference/tensor/tensor.h"

namespace mtpcheck {

/// One tensor of a dump, from each rank that wrote it.
struct DumpTensor {
  std::vector<Tensor> ranks;  ///< by rank; one where the dump is not of several
};

/// What somebody's engine wrote, by name as written.
using Dump = std::map<std::string, DumpTensor>;

/// Reads a dump:
///   FILE.safetensors             any floating or integer dtype
///   FILE.h5, FILE.hdf5           every dataset of numbers, its path with '.' for '/'; float16 to float64, integers
///   FOLDER of *.npy              name = file name; float16/32/64, integers, and bfloat16 as ml_dtypes saves it (V2)
///   FOLDER of *rankR*.safetensors   the shards of tensor-parallel ranks 0 … R, same names in each
/// Throws Error{input} for what is absent, malformed or of another kind, with file and reason.
Dump read_dump(const std::filesystem::path& path);

/// One .npy file. C order; little-endian.
Tensor read_npy(const std::filesystem::path& path);

}  // namespace mtpcheck
