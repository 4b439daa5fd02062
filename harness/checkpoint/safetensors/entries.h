#pragma once

#include <simdjson.h>

#include <cstdint>
#include <string>
#include <variant>

#include "harness/checkpoint/safetensors/header.h"

namespace mtpcheck {

/// The second half of reading a header: its entries, already parsed as JSON, against a file of `file_size` bytes whose
/// header was `header_length` bytes long.
std::variant<SafetensorsHeader, Problem> check_entries(const simdjson::dom::object& entries, const std::string& file,
                                                       std::uint64_t header_length, std::uint64_t file_size);

}  // namespace mtpcheck
