#pragma once

#include <cstddef>
#include <span>

namespace mtpcheck {

/// What two rows of logits say about each other at one temperature. Everything is derived without a T×V tensor and
/// without writing a probability anywhere.
struct RowStatistics {
  std::size_t target_argmax = 0;  ///< first largest
  std::size_t draft_argmax = 0;
  float target_margin = 0;  ///< largest minus second largest logit; 0 on a tie
  float draft_margin = 0;
  double target_log_normaliser = 0;  ///< log Σ exp(logit / temperature)
  double draft_log_normaliser = 0;
  double expected_acceptance = 0;  ///< Σ min(p, q)
};

/// Statistics of a row at `temperature` > 0. The logits are read from memory once: their exponentials, one an element,
/// stay in the processor's cache until the normalisers are known and the smaller ones can be summed.
///
/// target, draft   [V], finite or −inf. A NaN or a row of −inf shows as a NaN in a normaliser: see `is_sound`.
RowStatistics row_statistics(std::span<const float> target, std::span<const float> draft, double temperature = 1.0);

/// False when a row held a NaN, a +inf, or nothing but −inf.
bool is_sound(const RowStatistics& row);

/// Probability of `token` under a row's logits and its log-normaliser at that temperature.
double probability(std::span<const float> logits, std::size_t token, double log_normaliser, double temperature = 1.0);

}  // namespace mtpcheck
