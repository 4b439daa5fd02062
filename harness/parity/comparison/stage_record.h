#pragma once

#include <cstdint>
#include <string>

#include "harness/parity/stage/stage_noise.h"
#include "harness/parity/stage/tolerance.h"
#include "harness/parity/trace/trace.h"
#include "reports/record/comparison.h"

namespace mtpcheck {

/// Whose tensors go into the report.
enum class Keep : std::uint8_t { none, failing, all };

/// A record with the names, extents and dtypes of a stage, and no verdict yet. `tensor` is the reference's.
reports::StageRecord described(const StageKey& key, const Tensor& tensor);

/// "shape [16, 4], expected [16, 8]"; empty where the candidate's tensor can be compared with the reference's.
std::string shape_mismatch(Stage stage, const Tensor& candidate, const Tensor& reference);

/// Metrics of a stage of real numbers in the cumulative view: errors, distribution, profiles, worst elements, and the
/// agreement of logits. `candidate` has the shape of `truth`.
void measure_values(reports::StageRecord& record, const StageKey& key, const Tensor& candidate, const Tensor& truth,
                    const StageNoise& noise, const Tolerance& tolerance, double relative_noise);

/// `explained` with each row in the scale of the candidate's, where the two differ by less than a thousandth: how loud
/// the hidden state was that somebody fed is not known, and a norm's eps shows it in the last digits.
Tensor rows_in_scale(const Tensor& explained, const Tensor& candidate);

/// A tensor in the form in which reports keep it.
reports::KeptTensor kept(const Tensor& tensor);

}  // namespace mtpcheck
