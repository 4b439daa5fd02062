#include "harness/acceptance/statistics/engine_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace mtpcheck {

double AcceptanceCounts::accepted() const { return std::accumulate(reached.begin(), reached.end(), 0.0); }

void add_step(AcceptanceCounts& counts, std::size_t drafted, std::size_t accepted) {
  const std::size_t depth = std::max(counts.reached.size(), drafted);
  counts.reached.resize(depth, 0.0);
  counts.drafted_at.resize(depth, 0.0);
  counts.steps += 1;
  counts.drafted += static_cast<double>(drafted);
  for (std::size_t k = 0; k < drafted; ++k) counts.drafted_at[k] += 1;
  for (std::size_t k = 0; k < std::min(accepted, drafted); ++k) counts.reached[k] += 1;
}

AcceptanceCounts& operator+=(AcceptanceCounts& counts, const AcceptanceCounts& more) {
  counts.steps += more.steps;
  counts.drafted += more.drafted;
  const std::size_t depth = std::max(counts.reached.size(), more.reached.size());
  counts.reached.resize(depth, 0.0);
  counts.drafted_at.resize(depth, 0.0);
  for (std::size_t k = 0; k < more.reached.size(); ++k) {
    counts.reached[k] += more.reached[k];
    counts.drafted_at[k] += more.drafted_at[k];
  }
  return counts;
}

std::vector<EngineMetric> engine_metrics(const AcceptanceCounts& counts) {
  const double accepted = counts.accepted();
  std::vector<EngineMetric> metrics{
      {"vllm", "draft acceptance rate", "accepted draft tokens / draft tokens", accepted, counts.drafted},
      {"vllm", "mean acceptance length", "1 + accepted draft tokens / drafts, the bonus token included",
       accepted + counts.steps, counts.steps},
  };
  for (std::size_t k = 0; k < counts.reached.size(); ++k) {
    metrics.push_back({"vllm", fmt::format("acceptance rate at position {}", k + 1),
                       "drafts accepted up to this position / drafts (unconditional)", counts.reached[k],
                       counts.steps});
  }
  metrics.push_back(
      {"sglang", "accept length", "completion tokens / verification steps", accepted + counts.steps, counts.steps});
  metrics.push_back({"sglang", "accept rate", "accepted draft tokens / draft tokens", accepted, counts.drafted});
  metrics.push_back({"llama.cpp", "accept", "n_accept / n_drafted", accepted, counts.drafted});
  for (std::size_t k = 0; k < counts.reached.size(); ++k) {
    metrics.push_back({"mtpcheck", fmt::format("conditional acceptance rate at position {}", k + 1),
                       "accepted here / accepted at the position before", counts.reached[k],
                       k == 0 ? counts.steps : counts.reached[k - 1]});
  }
  metrics.push_back({"mtpcheck", "tokens per step", "accepted drafts and the verified token / steps",
                     accepted + counts.steps, counts.steps});
  return metrics;
}

double mean_acceptance_length(const AcceptanceCounts& counts) {
  return counts.steps == 0 ? 0 : 1 + counts.accepted() / counts.steps;
}

double mean_acceptance_length(std::span<const double> unconditional_rates) {
  return std::accumulate(unconditional_rates.begin(), unconditional_rates.end(), 1.0);
}

std::vector<double> accepted_histogram(const AcceptanceCounts& counts) {
  std::vector<double> histogram;
  double before = counts.steps;
  for (const double reached : counts.reached) {
    histogram.push_back(before - reached);
    before = reached;
  }
  histogram.push_back(before);
  return histogram;
}

double expected_speedup(double acceptance_length, std::size_t depth, double draft_cost, double verify_cost) {
  return acceptance_length / (static_cast<double>(depth) * draft_cost + verify_cost);
}

}  // namespace mtpcheck
