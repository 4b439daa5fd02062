#pragma once

#include <filesystem>

#include "harness/acceptance/study/series.h"

namespace mtpcheck {

/// Reads a file of token classes: `{"letter": [[97, 122], 65], "space": [32]}`, a class to ids and ranges (both ends
/// in). Tokens in no class are "other". Throws Error{input} for another form, and for a token in two classes.
TokenClass read_token_classes(const std::filesystem::path& path);

}  // namespace mtpcheck
