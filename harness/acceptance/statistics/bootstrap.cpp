#include "harness/acceptance/statistics/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/random/philox.h"

namespace mtpcheck {
namespace {

constexpr std::size_t kSignPatterns = 1U << 12;

ConfidenceInterval percentiles(std::vector<double> values) {
  std::ranges::sort(values);
  const auto at = [&](double share) {
    const double position = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(position);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    const double weight = position - static_cast<double>(below);
    return values[below] * (1 - weight) + values[above] * weight;
  };
  return {at(0.025), at(0.975)};
}

// Calls `add(sequence)` for each of n draws with replacement.
template <class Add>
void resample(std::size_t n, const RandomStream& stream, Add add) {
  for (std::size_t i = 0; i < n; ++i) add(static_cast<std::size_t>(stream.below(i, n)));
}

double ratio(const SequenceSums& sums) { return sums.denominator == 0 ? 0 : sums.numerator / sums.denominator; }

void operator+=(SequenceSums& sums, const SequenceSums& more) {
  sums.numerator += more.numerator;
  sums.denominator += more.denominator;
}

}  // namespace

double ratio_of_sums(std::span<const SequenceSums> sequences) {
  SequenceSums total;
  for (const auto& sequence : sequences) total += sequence;
  return ratio(total);
}

ConfidenceInterval bootstrap_interval(std::span<const SequenceSums> sequences, std::uint64_t seed,
                                      std::size_t resamples) {
  if (sequences.empty()) return {};
  std::vector<double> ratios(resamples);
  for (std::size_t r = 0; r < resamples; ++r) {
    SequenceSums total;
    resample(sequences.size(), RandomStream(seed, r), [&](std::size_t s) { total += sequences[s]; });
    ratios[r] = ratio(total);
  }
  return percentiles(std::move(ratios));
}

ConfidenceInterval paired_bootstrap_interval(std::span<const SequenceSums> a, std::span<const SequenceSums> b,
                                             std::uint64_t seed, std::size_t resamples) {
  if (a.empty()) return {};
  std::vector<double> differences(resamples);
  for (std::size_t r = 0; r < resamples; ++r) {
    SequenceSums total_a;
    SequenceSums total_b;
    resample(a.size(), RandomStream(seed, r), [&](std::size_t s) {
      total_a += a[s];
      total_b += b[s];
    });
    differences[r] = ratio(total_b) - ratio(total_a);
  }
  return percentiles(std::move(differences));
}

double sign_flip_p_value(std::span<const double> differences, std::uint64_t seed) {
  const std::size_t n = differences.size();
  double observed = 0;
  for (const double difference : differences) observed += difference;
  const double limit = std::fabs(observed) * (1 - 1e-12);  // a pattern with the same sum counts whatever its rounding
  const bool exact = n < 13;
  const std::size_t patterns = exact ? std::size_t{1} << n : kSignPatterns;
  std::size_t as_large = 0;
  for (std::size_t pattern = 0; pattern < patterns; ++pattern) {
    const RandomStream stream(seed, pattern);
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint64_t bits = exact ? pattern >> i : stream.bits(i / 64) >> (i % 64);
      sum += (bits & 1) != 0 ? -differences[i] : differences[i];
    }
    if (std::fabs(sum) >= limit) ++as_large;
  }
  return exact ? static_cast<double>(as_large) / static_cast<double>(patterns)
               : static_cast<double>(as_large + 1) / static_cast<double>(patterns + 1);
}

}  // namespace mtpcheck
