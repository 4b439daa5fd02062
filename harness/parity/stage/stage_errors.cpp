#include "harness/parity/stage/stage_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/parity/metrics/error_sums.h"
#include "harness/parity/metrics/worst_elements.h"

namespace mtpcheck {
namespace {

ErrorSums total(const std::vector<ErrorSums>& rows, std::size_t row_length) {
  ErrorSums sums;
  for (std::size_t i = 0; i < rows.size(); ++i) append(sums, rows[i], i * row_length);
  return sums;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<double> row_limits(const std::vector<ErrorSums>& rounded, const Tolerance& tolerance) {
  std::vector<double> noise;
  for (const auto& row : rounded) noise.push_back(row.rms());
  const double typical = median(noise);
  std::vector<double> limits;
  for (std::size_t i = 0; i < noise.size(); ++i) {
    limits.push_back(tolerance.row_factor *
                     allowance(tolerance, std::max(noise[i], typical), rounded[i].reference_rms()));
  }
  return limits;
}

/// Error and limit by token; rows of several heads are put together.
void fill_profile(reports::ProfileRecord& profile, const std::vector<ErrorSums>& rows,
                  const std::vector<double>& limits, std::size_t tokens) {
  if (tokens == 0) return;
  profile.token_rms.assign(tokens, 0);
  profile.token_allowance.assign(tokens, 0);
  const std::size_t heads = rows.size() / tokens;
  for (std::size_t token = 0; token < tokens; ++token) {
    ErrorSums sums;
    double limit = 0;
    for (std::size_t head = 0; head < heads; ++head) {
      append(sums, rows[head * tokens + token], 0);
      limit = std::max(limit, limits[head * tokens + token]);
    }
    profile.token_rms[token] = sums.rms();
    profile.token_allowance[token] = limit;
  }
}

std::string failure_of(const reports::ErrorRecord& record, const ErrorSums& sums) {
  if (record.mask_mismatches > 0) {
    return fmt::format(
        "{} elements are NaN, or infinite on one side only ({} NaN in the candidate, {} in the reference)",
        record.mask_mismatches, record.candidate_nan, record.reference_nan);
  }
  if (sums.candidate_squares == 0 && sums.reference_squares > 0) return "all zero where the reference is not";
  if (!(record.rms <= record.allowance)) {
    return fmt::format("error {:.3g} (rms) is {:.3g} times its allowance {:.3g}", record.rms, record.allowance_used,
                       record.allowance);
  }
  if (!(record.worst_row_used <= 1)) {
    return fmt::format("row {} errs {:.3g} times as much as a row may", record.worst_row, record.worst_row_used);
  }
  return {};
}

}  // namespace

std::size_t rows_of(Stage stage, const Shape& shape) {
  if (shape.empty()) return 1;
  return stage == Stage::attn_probs && shape.size() == 3 ? shape[0] * shape[1] : shape[0];
}

StageErrors stage_errors(Stage stage, const TensorView& candidate, const TensorView& truth, const TensorView& rounded,
                         const Tolerance& tolerance) {
  const std::size_t count = rows_of(stage, truth.shape);
  const auto rows = compare_rows(candidate, truth, count);
  const auto noise = compare_rows(rounded, truth, count);
  const std::size_t length = count == 0 ? 0 : truth.elements() / count;
  const ErrorSums sums = total(rows, length);

  StageErrors result;
  auto& record = result.record;
  record.max_abs = sums.max_abs;
  record.mean_abs = sums.mean_abs();
  record.rms = sums.rms();
  record.relative_l2 = sums.relative_l2();
  record.cosine_distance = sums.cosine_distance();
  record.range = sums.reference_range;
  record.elements = static_cast<std::int64_t>(sums.elements);
  record.mask_mismatches = static_cast<std::int64_t>(sums.mask_mismatches);
  record.candidate_nan = static_cast<std::int64_t>(sums.candidate_nan);
  record.reference_nan = static_cast<std::int64_t>(sums.reference_nan);
  record.candidate_inf = static_cast<std::int64_t>(sums.candidate_inf);
  record.reference_inf = static_cast<std::int64_t>(sums.reference_inf);
  record.rounding_rms = total(noise, length).rms();
  record.allowance = allowance(tolerance, record.rounding_rms, sums.reference_rms());
  record.allowance_used = used(record.rms, record.allowance);

  const std::vector<double> limits = row_limits(noise, tolerance);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double share = used(rows[i].rms(), limits[i]);
    if (record.worst_row >= 0 && share <= record.worst_row_used) continue;
    record.worst_row_used = share;
    record.worst_row = static_cast<std::int64_t>(i);
  }
  record.reason = failure_of(record, sums);
  record.pass = record.reason.empty();
  fill_profile(result.profile, rows, limits,
               stage == Stage::attn_probs && truth.shape.size() == 3 ? truth.shape[1] : count);
  result.profile.channel_rms = channel_errors(candidate, truth);
  return result;
}

}  // namespace mtpcheck
