#include "harness/parity/metrics/selection.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mtpcheck {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<std::int32_t> chosen(const std::vector<std::int32_t>& ids) {
  std::vector<std::int32_t> set;
  for (const std::int32_t id : ids) {
    if (id >= 0) set.push_back(id);
  }
  std::ranges::sort(set);
  return set;
}

std::vector<std::int32_t> without(const std::vector<std::int32_t>& from, const std::vector<std::int32_t>& taken) {
  std::vector<std::int32_t> rest;
  std::ranges::set_difference(from, taken, std::back_inserter(rest));
  return rest;
}

/// Every id may be chosen, and none is chosen twice.
bool possible(const std::vector<std::int32_t>& set, const ScoredRow& row) {
  const bool twice = std::ranges::adjacent_find(set) != set.end();
  return !twice && std::ranges::all_of(set, [&](std::int32_t id) {
    const auto index = static_cast<std::size_t>(id);
    return index < row.scores.size() && row.scores[index] > -kInfinity;
  });
}

/// The largest lead of an id left out over one chosen in its place; infinite for sets of different sizes.
double lead(const std::vector<std::int32_t>& candidate, const std::vector<std::int32_t>& reference,
            const ScoredRow& row) {
  if (candidate.size() != reference.size()) return kInfinity;
  double worst_chosen = kInfinity;
  for (const std::int32_t id : without(candidate, reference)) {
    const double score = row.scores[static_cast<std::size_t>(id)];
    worst_chosen = std::isnan(score) ? -kInfinity : std::min(worst_chosen, score);
  }
  double best_left_out = -kInfinity;
  for (const std::int32_t id : without(reference, candidate)) {
    const double score = row.scores[static_cast<std::size_t>(id)];
    best_left_out = std::isnan(score) ? kInfinity : std::max(best_left_out, score);
  }
  return best_left_out - worst_chosen;
}

}  // namespace

SelectionComparison compare_selections(const Choices& candidate, const Choices& reference,
                                       std::span<const ScoredRow> rows) {
  SelectionComparison result;
  auto& record = result.record;
  record.rows = static_cast<std::int64_t>(reference.size());
  result.excused.assign(reference.size(), false);
  result.possible.assign(reference.size(), false);
  double jaccard_sum = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const auto ours = chosen(reference[i]);
    const auto theirs = i < candidate.size() ? chosen(candidate[i]) : std::vector<std::int32_t>{};
    result.possible[i] = possible(theirs, rows[i]);
    if (ours == theirs) {
      jaccard_sum += 1;
      continue;
    }
    const std::size_t shared = ours.size() - without(ours, theirs).size();
    const std::size_t all = ours.size() + theirs.size() - shared;
    const double jaccard = static_cast<double>(shared) / static_cast<double>(all);
    jaccard_sum += jaccard;
    record.jaccard_min = std::min(record.jaccard_min, jaccard);
    const double margin = result.possible[i] ? lead(theirs, ours, rows[i]) : kInfinity;
    result.excused[i] = margin <= rows[i].noise;
    ++record.flipped_rows;
    ++(result.excused[i] ? record.excused_rows : record.unexcused_rows);
    if (record.worst_row < 0 || margin - rows[i].noise > record.worst_margin - record.worst_noise) {
      record.worst_margin = margin;
      record.worst_noise = rows[i].noise;
      record.worst_row = static_cast<std::int64_t>(i);
    }
  }
  if (!reference.empty()) record.jaccard_mean = jaccard_sum / static_cast<double>(reference.size());
  return result;
}

}  // namespace mtpcheck
