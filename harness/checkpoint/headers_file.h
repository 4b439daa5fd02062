#pragma once

#include <filesystem>
#include <string>

#include "harness/checkpoint/checkpoint.h"

namespace mtpcheck {

/// What an audit needs to know of a checkpoint but the data, as one JSON document:
/// `{"mtpcheck_headers": 1, "config": …, "conventions": …, "weight_map": …, "files": [{"name", "size", "header_length",
/// "tensors": {NAME: {"dtype", "shape", "data_offsets"}}}]}`, the entries as in safetensors' headers.
///
/// Throws Error{input} for a checkpoint with files that cannot be read.
std::string headers_document(const Checkpoint& checkpoint);

/// Reads such a document: the same value as opening the directory gives, without bytes. Every header is checked like a
/// file's. Throws Error{input} for a file that is no such document.
Checkpoint read_headers_file(const std::filesystem::path& path);

}  // namespace mtpcheck
