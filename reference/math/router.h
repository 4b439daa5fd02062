#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/math/rows.h"
#include "reference/model/weights.h"

namespace mtpcheck {

/// Ascending expert ids, K a token.
using ExpertChoice = std::vector<std::vector<std::int32_t>>;

/// How many groups experts are divided into, and how many of them a token may use.
struct ExpertGroups {
  std::size_t groups = 1;
  std::size_t used = 1;
};

/// Scores that decide the choice: sigmoid(logits) + bias, −∞ outside the token's groups.
///
/// logits [T, E], bias [E] or empty → [T, E]
/// Groups are ranked by the sum of their two best scores; of equal groups the lower is taken.
template <class S>
Rows<S> selection_scores(const Rows<S>& logits, const Vector& bias, ExpertGroups groups);

/// The K experts of each token by `selection_scores`; of equal ones the lower id.
/// Source: DeepSeek-V3, section 2.1.2 (the bias only selects).
template <class S>
ExpertChoice choose_experts(const Rows<S>& selection_scores, std::size_t count);

/// sigmoid(logit) of each chosen expert, divided by their sum + 1e−20 where `normalise`, times `factor`.
///
/// → [T, K], in the order of `experts`
template <class S>
Rows<S> expert_weights(const Rows<S>& logits, const ExpertChoice& experts, bool normalise, double factor);

}  // namespace mtpcheck
