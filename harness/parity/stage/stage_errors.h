#pragma once

#include "harness/parity/stage/stage_noise.h"
#include "harness/parity/stage/tolerance.h"
#include "reference/model/stages.h"
#include "reference/tensor/tensor.h"
#include "reports/record/comparison.h"

namespace mtpcheck {

struct StageErrors {
  reports::ErrorRecord record;
  reports::ProfileRecord profile;
};

/// Compares a stage of real numbers with the truth, against what rounding alone costs it. Both tensors have the same
/// shape. Fails, in this order, for
///   elements that are NaN on any side, or whose infinities differ;
///   an all-zero candidate where the truth is not all zero;
///   an error (root mean square over the stage) above its allowance (tolerance.h);
///   a row (a token, all heads together) whose error is above row_factor times its own allowance: k · its own rounding
///   error, or the stage's in proportion to the row's magnitude, whichever is larger, + the floor at its own magnitude.
///
/// relative_noise  the rounding error over the magnitude of the stage, where it is known from more rows than these
///                 (other draft steps, other sequences); it counts where it is larger than what these rows give
StageErrors stage_errors(Stage stage, const TensorView& candidate, const TensorView& truth, const StageNoise& noise,
                         const Tolerance& tolerance, double relative_noise = 0);

/// True for a failure that may be luck: the rounding error of a few rows, of one loud row, or of a row that is small by
/// cancellation may happen to be much smaller than it usually is. Worth measuring it on nearby inputs.
bool may_be_luck(const reports::ErrorRecord& record);

}  // namespace mtpcheck
