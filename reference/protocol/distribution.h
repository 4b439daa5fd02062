#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace mtpcheck {

/// Probabilities of a vocabulary, float64, summing to 1 to rounding.
using Distribution = std::vector<double>;

/// How logits become the distribution that is sampled from. The filters apply in the order temperature, top-k, top-p,
/// min-p, as in vLLM's sampler; each keeps at least one token, and what is kept is renormalised once at the end.
struct SamplingParameters {
  double temperature = 1.0;  ///< 0: greedy, all mass on the first largest logit
  std::size_t top_k = 0;     ///< 0: off; ties with the k-th largest are kept, lowest index first, up to k
  double top_p = 1.0;        ///< smallest set of largest probabilities that reaches top_p
  double min_p = 0.0;        ///< drops what is below min_p · the largest probability
};

/// Index of the first largest element. Throws Error{input} when a logit is NaN or when all are −inf; `where` names the
/// row.
std::size_t argmax(std::span<const float> logits, const char* where = "logits");

/// Softmax of logits under the sampling parameters, in float64. Throws as argmax does, and Error{usage} for parameters
/// out of range (negative temperature, top_p outside (0, 1], min_p outside [0, 1]).
Distribution distribution(std::span<const float> logits, const SamplingParameters& parameters = {});

/// The token at which the running sum of probabilities first exceeds `uniform` in [0, 1); by inversion, so that a given
/// uniform means the same token on every machine. Never a token of probability 0.
std::size_t sample(const Distribution& probabilities, double uniform);

/// Σ min(p, q): the probability that rejection sampling accepts a draft from q against the target p.
/// Source: Leviathan et al. 2022, theorem 3.5.
double expected_acceptance(std::span<const double> target, std::span<const double> draft);

/// What is sampled from after a rejection: max(p − q, 0) normalised. nullopt when p equals q, where no draft is
/// rejected. Source: Leviathan et al. 2022, section 2.3; Chen et al. 2023, algorithm 2.
std::optional<Distribution> residual(std::span<const double> target, std::span<const double> draft);

}  // namespace mtpcheck
