#pragma once

#include <string_view>

namespace mtpcheck {

/// The order in which engines read shards: runs of digits compare as numbers, what is between them as text, so that
/// model-2 comes before model-10. Names that are equal in this sense ("a1", "a01") compare as text.
///
/// Source: vLLM and transformers sort shards this way.
bool natural_less(std::string_view a, std::string_view b);

}  // namespace mtpcheck
