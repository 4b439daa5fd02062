#pragma once

#include <cstddef>

#include "harness/parity/stage/tolerance.h"
#include "reference/model/stages.h"
#include "reference/tensor/tensor.h"
#include "reports/record/comparison.h"

namespace mtpcheck {

/// How many rows of its own a stage's tensor has: tokens, or heads × tokens for attn_probs [N, T, S].
std::size_t rows_of(Stage stage, const Shape& shape);

struct StageErrors {
  reports::ErrorRecord record;
  reports::ProfileRecord profile;
};

/// Compares a stage of real numbers with the truth, against what the rounded reference errs by. All three have the same
/// shape. Fails, in this order, for
///   elements that are NaN on any side, or whose infinities differ;
///   an all-zero candidate where the truth is not all zero;
///   an error (root mean square over the stage) above its allowance;
///   a row whose error is above row_factor times its own allowance: k · its rounding error, or the median row's where
///   that is larger, + the floor at its own magnitude. (The median keeps a row of two elements, whose own rounding
///   error may be nothing by luck, from deciding; unlike the mean it does not grow with a few large rows.)
StageErrors stage_errors(Stage stage, const TensorView& candidate, const TensorView& truth, const TensorView& rounded,
                         const Tolerance& tolerance);

}  // namespace mtpcheck
