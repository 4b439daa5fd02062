#pragma once

#include <span>
#include <string_view>

#include "reference/tensor/dtype.h"

namespace mtpcheck {

/// What a candidate in precision P may err by: k times what P itself costs (the error of the rounded reference), plus a
/// floor for stages where that happens to be nothing. See docs/tolerance.md.
struct Tolerance {
  Dtype precision = Dtype::f32;  ///< P: f64, f32, bf16 or f16
  double k = 2;
  double floor_ulps = 4;  ///< of P, at the root mean square of the stage or row
  double row_factor = 8;  ///< by how much one row may exceed its own allowance
};

/// The distance from |magnitude| to the next larger value of the type: f64, f32, bf16 or f16. 0 for 0.
double ulp(Dtype precision, double magnitude);

/// k · rounding_error + floor_ulps · ulp(magnitude)
double allowance(const Tolerance& tolerance, double rounding_error, double magnitude);

/// 1 + 2/√n, for a rounding error that was measured on n tokens: of a few it may be small by luck, and a candidate as
/// good as the rounded reference then errs by more than twice as much. 3 for one token, 1.16 for 159, 1.03 for 4,096.
///
/// energies  Σ (error)² of each token. n is the number of tokens that carry the error: (Σ e)² / Σ e², the participation
///           ratio, so that one loud token among a thousand silent ones counts as one.
double few_tokens_factor(std::span<const double> energies);

/// error / limit; 0 where both are 0, infinite where only the limit is 0, NaN where the error is.
double used(double error, double limit);

/// "f32", "bf16", …, as on the command line.
std::string_view precision_name(Dtype precision);

}  // namespace mtpcheck
