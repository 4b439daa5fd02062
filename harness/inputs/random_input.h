#pragma once

#include <cstddef>
#include <cstdint>

#include "reference/model/config.h"
#include "reference/model/input.h"

namespace mtpcheck {

/// One sequence of random rows: ids uniform over the vocabulary, positions 0 … tokens−1, hidden states bfloat16 of mean
/// 0 and deviation 1. The same on every machine for the same seed: no function of a maths library takes part (the
/// deviates are sums of twelve uniform ones).
///
/// Throws Error{usage} for no tokens.
HeadInput random_head_input(const HeadConfig& config, std::size_t tokens, std::uint64_t seed);

}  // namespace mtpcheck
