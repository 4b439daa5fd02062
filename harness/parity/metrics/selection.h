#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reports/record/comparison.h"

namespace mtpcheck {

/// Chosen ids of each row; entries below 0 are padding.
using Choices = std::vector<std::vector<std::int32_t>>;

/// What the reference knows about a row's choice.
struct ScoredRow {
  std::vector<double> scores;  ///< by id; −inf: may not be chosen
  double noise = 0;            ///< a lead smaller than this says nothing
};

struct SelectionComparison {
  reports::SelectionRecord record;
  std::vector<bool> excused;   ///< [rows] the row's sets differ, by less than its noise
  std::vector<bool> possible;  ///< [rows] the candidate's set could be forced on the reference
};

/// Compares choices as sets, row by row. Where they differ, the flip is excused when the reference's scores put no key
/// that was left out ahead of one chosen in its place by more than the row's noise: then both are in the same class of
/// ties. A set of another size, an id twice, or one that may not be chosen is never excused.
SelectionComparison compare_selections(const Choices& candidate, const Choices& reference,
                                       std::span<const ScoredRow> rows);

}  // namespace mtpcheck
