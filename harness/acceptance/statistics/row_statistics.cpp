#include "harness/acceptance/statistics/row_statistics.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/acceptance/statistics/row_kernel.h"

namespace mtpcheck {
namespace {

using row_kernel::kBlock;

// Exponentials of a row by blocks, each relative to its block's largest logit. A row of 120,832 takes half a megabyte:
// it stays in the processor's second cache, so that memory is read once.
struct ScannedRow {
  row_kernel::Scan top;
  std::vector<float> exponentials;
  std::vector<float> pivots;
  std::vector<float> sums;
  std::size_t argmax = 0;
  double log_normaliser = 0;

  void scan(std::span<const float> logits, double temperature) {
    const std::size_t blocks = (logits.size() + kBlock - 1) / kBlock;
    exponentials.resize(logits.size());
    pivots.resize(blocks);
    sums.resize(blocks);
    top = row_kernel::chosen().scan(logits.data(), logits.size(), static_cast<float>(1 / temperature),
                                    exponentials.data(), pivots.data(), sums.data());
    const auto first = logits.begin() + static_cast<std::ptrdiff_t>(top.block * kBlock);
    argmax = static_cast<std::size_t>(std::find(first, logits.end(), top.largest) - logits.begin());
    if (argmax == logits.size()) argmax = 0;  // NaN only
    double sum = 0;
    for (std::size_t b = 0; b < blocks; ++b) sum += sums[b] * std::exp((double{pivots[b]} - top.largest) / temperature);
    log_normaliser = top.largest / temperature + std::log(sum);
  }

  // What turns a block's exponentials into probabilities.
  float factor(std::size_t block, double temperature) const {
    return static_cast<float>(std::exp(pivots[block] / temperature - log_normaliser));
  }
};

float margin(const row_kernel::Scan& top) { return top.largest - top.runner_up; }

}  // namespace

RowStatistics row_statistics(std::span<const float> target, std::span<const float> draft, double temperature) {
  thread_local ScannedRow p;
  thread_local ScannedRow q;
  p.scan(target, temperature);
  q.scan(draft, temperature);
  RowStatistics row;
  row.target_argmax = p.argmax;
  row.draft_argmax = q.argmax;
  row.target_margin = margin(p.top);
  row.draft_margin = margin(q.top);
  row.target_log_normaliser = p.log_normaliser;
  row.draft_log_normaliser = q.log_normaliser;
  for (std::size_t b = 0; b < p.pivots.size(); ++b) {
    const std::size_t first = b * kBlock;
    row.expected_acceptance += row_kernel::chosen().sum_of_minima(
        p.exponentials.data() + first, p.factor(b, temperature), q.exponentials.data() + first,
        q.factor(b, temperature), std::min(kBlock, target.size() - first));
  }
  return row;
}

bool is_sound(const RowStatistics& row) {
  return std::isfinite(row.target_log_normaliser) && std::isfinite(row.draft_log_normaliser);
}

double probability(std::span<const float> logits, std::size_t token, double log_normaliser, double temperature) {
  return std::exp(static_cast<double>(logits[token]) / temperature - log_normaliser);
}

}  // namespace mtpcheck
