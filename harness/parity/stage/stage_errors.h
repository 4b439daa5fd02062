#pragma once

#include <cstddef>

#include "harness/parity/stage/tolerance.h"
#include "reference/model/stages.h"
#include "reference/tensor/tensor.h"
#include "reports/record/comparison.h"

namespace mtpcheck {

/// How many tokens a stage's tensor has: its first extent, or the second of attn_probs [N, T, S].
std::size_t tokens_of(Stage stage, const Shape& shape);

struct StageErrors {
  reports::ErrorRecord record;
  reports::ProfileRecord profile;
};

/// Compares a stage of real numbers with the truth, against what the rounded reference errs by. All three have the same
/// shape. Fails, in this order, for
///   elements that are NaN on any side, or whose infinities differ;
///   an all-zero candidate where the truth is not all zero;
///   an error (root mean square over the stage) above its allowance (tolerance.h);
///   a row (a token, all heads together) whose error is above row_factor times its own allowance: k · its rounding
///   error, or the stage's in proportion to the row's magnitude, or, of 20 rows and more, what three quarters of
///   them err by, whichever is largest, + the floor at its own magnitude. (A row of two elements may have no rounding
///   error at all, by luck, and be small by cancellation; the other two keep it from deciding.)
///
/// relative_noise  the rounded reference's error over the magnitude of the stage, where it is known from more rows than
///                 these (other draft steps, other sequences); it counts where it is larger than what these rows give
StageErrors stage_errors(Stage stage, const TensorView& candidate, const TensorView& truth, const TensorView& rounded,
                         const Tolerance& tolerance, double relative_noise = 0);

}  // namespace mtpcheck
