#pragma once

#include <simdjson.h>

#include <string>
#include <variant>

#include "harness/checkpoint/safetensors/index.h"

namespace mtpcheck {

/// The second half of reading an index: its weight_map, already parsed as JSON.
std::variant<SafetensorsIndex, Problem> read_weight_map(const simdjson::dom::object& weight_map,
                                                        const std::string& file);

}  // namespace mtpcheck
