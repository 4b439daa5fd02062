#include "harness/parity/comparison/selections.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mtpcheck {
namespace {

std::vector<std::vector<double>> rows_of_scores(const TensorView& scores) {
  const std::vector<double> values = to_f64(scores);
  const std::size_t rows = scores.shape.empty() ? 0 : scores.shape.front();
  const std::size_t width = rows == 0 ? 0 : values.size() / rows;
  std::vector<std::vector<double>> result;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(row * width);
    result.emplace_back(first, first + static_cast<std::ptrdiff_t>(width));
  }
  return result;
}

StageKey scores_key(const StageKey& key) {
  return {key.stage == Stage::topk_indices ? Stage::indexer_scores : Stage::router_logits, key.step, key.sequence};
}

std::vector<std::vector<double>> scores_of(const StageKey& key, const Tensor& scores, const ReferenceRuns& reference) {
  if (key.stage == Stage::topk_indices) return rows_of_scores(scores.view());
  return reference.expert_scores(scores.view());
}

bool shorter_than_f32(Dtype dtype) { return dtype == Dtype::bf16 || dtype == Dtype::f16; }

double noise_of(const std::vector<double>& truth, const std::vector<double>& rounded, const Tolerance& tolerance) {
  double error = 0;
  double largest = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    if (!std::isfinite(truth[i]) || !std::isfinite(rounded[i])) continue;
    error = std::max(error, std::abs(rounded[i] - truth[i]));
    largest = std::max(largest, std::abs(truth[i]));
  }
  return 2 * allowance(tolerance, error, largest);
}

/// An id as it was recorded; one that no stage can have stays impossible where its lower half alone would not.
std::int32_t narrow_id(std::int64_t id) {
  if (id < 0) return -1;
  return static_cast<std::int32_t>(std::min<std::int64_t>(id, std::numeric_limits<std::int32_t>::max()));
}

void append_rows(Choices& to, const Tensor& tensor) {
  Choices rows = choices_of(tensor.view());
  to.insert(to.end(), std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
}

}  // namespace

Choices choices_of(const TensorView& tensor) {
  const std::vector<std::int64_t> ids = to_i64(tensor);
  const std::size_t rows = tensor.shape.empty() ? 0 : tensor.shape.front();
  const std::size_t width = rows == 0 ? 0 : ids.size() / rows;
  Choices choices(rows);
  for (std::size_t i = 0; i < ids.size(); ++i) choices[i / width].push_back(narrow_id(ids[i]));
  return choices;
}

bool can_be_replayed(const StageKey& key, const Tensor& choices, const Shape& expected) {
  if (choices.shape.size() != 2 || choices.shape.front() != expected.front()) return false;
  return std::ranges::all_of(choices_of(choices.view()), [&](std::vector<std::int32_t> row) {
    std::erase_if(row, [](std::int32_t id) { return id < 0; });
    return key.stage == Stage::topk_experts ? row.size() == expected.back() : !row.empty();
  });
}

Selections selections_of(const Trace& trace, std::size_t step) {
  Selections selections;
  for (const auto& [key, tensor] : trace) {  // sequences in order
    if (key.step != step) continue;
    if (key.stage == Stage::topk_indices) append_rows(selections.topk_indices, tensor);
    if (key.stage == Stage::topk_experts) append_rows(selections.topk_experts, tensor);
  }
  for (auto* choices : {&selections.topk_indices, &selections.topk_experts}) {
    for (auto& row : *choices) std::erase_if(row, [](std::int32_t id) { return id < 0; });
  }
  return selections;
}

std::vector<ScoredRow> scored_rows(const StageKey& key, const Trace& truth, const Trace& rounded,
                                   const ReferenceRuns& reference, const Tolerance& tolerance) {
  const Tensor* const exact = find(truth, scores_key(key));
  const Tensor* const noisy = find(rounded, scores_key(key));
  if (exact == nullptr || noisy == nullptr || exact->shape != noisy->shape) return {};
  Tolerance scale = tolerance;
  if (scale.precision != Dtype::f64) scale.precision = shorter_than_f32(exact->dtype) ? exact->dtype : Dtype::f32;
  auto scores = scores_of(key, *exact, reference);
  const auto rounded_scores = scores_of(key, *noisy, reference);
  std::vector<ScoredRow> rows(scores.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].noise = noise_of(scores[i], rounded_scores[i], scale);
    rows[i].scores = std::move(scores[i]);
  }
  return rows;
}

}  // namespace mtpcheck
