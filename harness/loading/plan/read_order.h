#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "harness/checkpoint/header_set.h"

namespace mtpcheck {

/// Headers file by file, in a file by name; without tensors of files that the index does not name.
///
/// before  orders two files by their names without the folder: engines sort them as text, or numbers in them by value
std::vector<std::uint32_t> read_order(const HeaderSet& headers,
                                      bool (*before)(std::string_view file, std::string_view other));

}  // namespace mtpcheck
