#pragma once

#include "reference/model/config.h"
#include "reference/model/input.h"
#include "reference/model/weights.h"

namespace mtpcheck {

/// Throws Error{input} that names the first matrix or vector whose size the config does not ask for, and both sizes.
void check_weights(const HeadConfig& config, const HeadWeights& weights);

/// Throws Error{input} for a batch that does not fit: rows, ids beyond the vocabulary, negative positions, bounds of
/// sequences that do not ascend to the number of rows.
void check_input(const HeadConfig& config, const HeadInput& input);

}  // namespace mtpcheck
