#include "harness/parity/stage/stage_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/parity/metrics/error_sums.h"
#include "harness/parity/metrics/worst_elements.h"

namespace mtpcheck {
namespace {

/// Per token; the heads of attn_probs [N, T, S] are put together.
std::vector<ErrorSums> compare_tokens(const TensorView& tensor, const TensorView& truth, std::size_t rows,
                                      std::size_t tokens) {
  std::vector<ErrorSums> sums = compare_rows(tensor, truth, rows);
  for (std::size_t i = tokens; i < rows; ++i) append(sums[i % tokens], sums[i], 0);
  sums.resize(tokens);
  return sums;
}

ErrorSums total(const std::vector<ErrorSums>& tokens) {
  ErrorSums sums;
  for (const auto& token : tokens) append(sums, token, 0);
  return sums;
}

double few_tokens(const std::vector<ErrorSums>& noise) {
  std::vector<double> energies;
  for (const auto& token : noise) energies.push_back(token.squares);
  return few_tokens_factor(energies);
}

/// What three quarters of the tokens err by at least; nothing where there are too few of them to tell.
double common_noise(const std::vector<ErrorSums>& noise) {
  constexpr std::size_t kEnough = 20;
  if (noise.size() < kEnough) return 0;
  std::vector<double> values;
  for (const auto& token : noise) values.push_back(token.rms());
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 4);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

std::vector<double> token_limits(const std::vector<ErrorSums>& noise, double relative_noise,
                                 const Tolerance& tolerance) {
  const double common = common_noise(noise);
  std::vector<double> limits;
  for (const auto& token : noise) {
    const double magnitude = token.reference_rms();
    const double rounding = std::max({token.rms(), common, relative_noise * magnitude});
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

std::size_t tokens_of(Stage stage, const Shape& shape) {
  if (shape.empty()) return 1;
  return stage == Stage::attn_probs && shape.size() == 3 ? shape[1] : shape[0];
}

StageErrors stage_errors(Stage stage, const TensorView& candidate, const TensorView& truth, const TensorView& rounded,
                         const Tolerance& tolerance, double relative_noise) {
  const std::size_t tokens = tokens_of(stage, truth.shape);
  const std::size_t heads = stage == Stage::attn_probs && truth.shape.size() == 3 ? truth.shape[0] : 1;
  const auto errors = compare_tokens(candidate, truth, heads * tokens, tokens);
  const auto noise = compare_tokens(rounded, truth, heads * tokens, tokens);
  const ErrorSums sums = total(errors);
  const ErrorSums rounding = total(noise);

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
  record.rounding_rms = std::max(rounding.rms(), relative_noise * sums.reference_rms());
  record.allowance = allowance(tolerance, few_tokens(noise) * record.rounding_rms, sums.reference_rms());
  record.allowance_used = used(record.rms, record.allowance);

  const double relative = sums.reference_rms() > 0 ? record.rounding_rms / sums.reference_rms() : 0;
  const std::vector<double> limits = token_limits(noise, relative, tolerance);
  for (std::size_t i = 0; i < tokens; ++i) {
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

}  // namespace mtpcheck
