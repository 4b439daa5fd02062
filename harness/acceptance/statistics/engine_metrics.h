#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mtpcheck {

/// What a run of verification steps adds up to. Counts are real numbers, so that expected counts fit too.
struct AcceptanceCounts {
  double steps = 0;                ///< verification steps (vLLM: num_drafts)
  double drafted = 0;              ///< draft tokens
  std::vector<double> reached;     ///< [K] steps in which at least k+1 drafts were accepted
  std::vector<double> drafted_at;  ///< [K] steps that drafted a token at depth k (fewer where a sequence ended)

  double accepted() const;  ///< Σ reached
};

/// Adds one step of `drafted` drafts of which `accepted` passed. Drafts after an accepted end-of-sequence token are no
/// drafts of the step: the caller passes the depth up to it (FAULTS S03).
void add_step(AcceptanceCounts& counts, std::size_t drafted, std::size_t accepted);

AcceptanceCounts& operator+=(AcceptanceCounts& counts, const AcceptanceCounts& more);

/// A figure with the numbers it was made of, and whose definition it is.
struct EngineMetric {
  std::string engine;      ///< "vllm", "sglang", "llama.cpp"
  std::string name;        ///< "mean acceptance length"
  std::string definition;  ///< in words
  double numerator = 0;
  double denominator = 0;

  double value() const { return denominator == 0 ? 0 : numerator / denominator; }
};

/// Every engine's figures:
///   vllm       draft acceptance rate = accepted / drafted; mean acceptance length = 1 + accepted / steps (with the
///   bonus
///              token); per-position rate k = steps that reached k / steps (unconditional)
///   sglang     accept length = (accepted + steps) / steps; accept rate = accepted / drafted
///   llama.cpp  accept = n_accept / n_drafted
///   mtpcheck   conditional rate k = reached k / reached k−1; tokens per step
std::vector<EngineMetric> engine_metrics(const AcceptanceCounts& counts);

/// Tokens a step emits: accepted drafts and the one that verification adds.
double mean_acceptance_length(const AcceptanceCounts& counts);

/// Mean acceptance length of a curve of unconditional per-position rates: 1 + Σ rate.
double mean_acceptance_length(std::span<const double> unconditional_rates);

/// [K+1] steps with exactly k accepted drafts.
std::vector<double> accepted_histogram(const AcceptanceCounts& counts);

/// Tokens a second relative to plain decoding, when a draft step costs `draft_cost` and a verification `verify_cost`
/// plain decode steps: length / (K · draft_cost + verify_cost).
///
/// Source: Leviathan et al. 2022, theorem 3.8, with the measured length in place of its geometric model.
double expected_speedup(double acceptance_length, std::size_t depth, double draft_cost, double verify_cost = 1.0);

}  // namespace mtpcheck
