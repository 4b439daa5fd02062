#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mtpcheck {

/// A ratio of sums over sequences: Σ numerator / Σ denominator. (A mean of ratios would weigh a short sequence like a
/// long one; the engines report ratios of sums.)
struct SequenceSums {
  double numerator = 0;
  double denominator = 0;
};

double ratio_of_sums(std::span<const SequenceSums> sequences);

struct ConfidenceInterval {
  double low = 0;
  double high = 0;
};

/// 95 % percentile interval of the ratio of sums under resampling of whole sequences (rows of one sequence share a
/// context and are not independent). One sequence gives the degenerate interval of its ratio.
///
/// Source: Efron and Tibshirani 1993, section 13.3.
ConfidenceInterval bootstrap_interval(std::span<const SequenceSums> sequences, std::uint64_t seed,
                                      std::size_t resamples = 2000);

/// The same for the difference `b − a` of two heads on the same sequences, resampled together.
ConfidenceInterval paired_bootstrap_interval(std::span<const SequenceSums> a, std::span<const SequenceSums> b,
                                             std::uint64_t seed, std::size_t resamples = 2000);

/// Two-sided p-value of "no difference" by flipping, per sequence, which head is which: exact enumeration up to 2^12
/// sign patterns, else that many random ones plus the observed one. Differences are of numerators, since both heads
/// share the rows and so the denominators.
///
/// Source: Fisher 1935; Dror et al. 2018, "The hitchhiker's guide to testing statistical significance in NLP".
double sign_flip_p_value(std::span<const double> differences, std::uint64_t seed);

}  // namespace mtpcheck
