#include "harness/parity/stage/stage_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/parity/metrics/error_sums.h"
#include "harness/parity/metrics/worst_elements.h"

namespace mtpcheck {
namespace {

ErrorSums total(const std::vector<ErrorSums>& tokens) {
  ErrorSums sums;
  for (const auto& token : tokens) append(sums, token, 0);
  return sums;
}

double few_tokens(const std::vector<ErrorSums>& noise) {
  std::vector<double> energies;
  energies.reserve(noise.size());
  for (const auto& token : noise) energies.push_back(token.squares);
  return few_tokens_factor(energies);
}

std::vector<double> token_limits(const std::vector<ErrorSums>& errors, const std::vector<ErrorSums>& noise,
                                 double relative_noise, const Tolerance& tolerance) {
  std::vector<double> limits;
  limits.reserve(errors.size());
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const double magnitude = errors[i].reference_rms();
    const double rounding = std::max(noise[i].rms(), relative_noise * magnitude);
    limits.push_back(tolerance.row_factor * allowance(tolerance, rounding, magnitude));
  }
  return limits;
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

StageErrors stage_errors(Stage stage, const TensorView& candidate, const TensorView& truth, const StageNoise& noise,
                         const Tolerance& tolerance, double relative_noise) {
  const auto errors = compare_tokens(stage, candidate, truth);
  const ErrorSums sums = total(errors);
  const ErrorSums rounding = total(noise.tokens);

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
  record.noise_samples = static_cast<std::int64_t>(noise.samples);
  record.rounding_rms = std::max(rounding.rms(), relative_noise * sums.reference_rms());
  record.allowance = allowance(tolerance, few_tokens(noise.tokens) * record.rounding_rms, sums.reference_rms());
  record.allowance_used = used(record.rms, record.allowance);

  const double relative = sums.reference_rms() > 0 ? record.rounding_rms / sums.reference_rms() : 0;
  const std::vector<double> limits = token_limits(errors, noise.tokens, relative, tolerance);
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const double share = used(errors[i].rms(), limits[i]);
    result.profile.token_rms.push_back(errors[i].rms());
    if (record.worst_row >= 0 && share <= record.worst_row_used) continue;
    record.worst_row_used = share;
    record.worst_row = static_cast<std::int64_t>(i);
  }
  result.profile.token_allowance = limits;
  result.profile.channel_rms = channel_errors(candidate, truth);
  record.reason = failure_of(record, sums);
  record.pass = record.reason.empty();
  return result;
}

bool may_be_luck(const reports::ErrorRecord& record) {
  constexpr double kNoLuck = 100;  // times the allowance
  if (record.pass || record.mask_mismatches > 0) return false;
  return record.rms <= record.allowance || record.allowance == 0 || record.allowance_used < kNoLuck;
}

}  // namespace mtpcheck
