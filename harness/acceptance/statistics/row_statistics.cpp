#include "harness/acceptance/statistics/row_statistics.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

// The loops below are written for the vectoriser: fixed lanes, no branches. One copy is compiled per instruction set
// and the loader picks one, so that the binary runs everywhere.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MTPCHECK_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MTPCHECK_CLONES
#endif

namespace mtpcheck {
namespace {

constexpr std::size_t kLanes = 16;
constexpr std::size_t kBlock = 512;  // float32 sums are folded into float64 after so many elements
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// e^x for x ≤ 0, to 2 ulp: 2^n · P(r), x = n·ln2 + r (Cody and Waite 1980), P the Taylor polynomial of degree 6.
// Below −87 the result is taken as that of −87, 1.6e-38, which is nothing in a sum that holds a 1; −inf gives 0.
inline float exp_of_negative(float x) {
  const float clamped = x < -87.0F ? -87.0F : x;
  const float shifted = clamped * 1.44269504F + 12582912.0F;  // 1.5 · 2^23: rounds to an integer in the low bits
  const float n = shifted - 12582912.0F;
  const float r = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;
  float poly = 1.0F / 720;
  poly = poly * r + 1.0F / 120;
  poly = poly * r + 1.0F / 24;
  poly = poly * r + 1.0F / 6;
  poly = poly * r + 0.5F;
  poly = poly * r + 1.0F;
  poly = poly * r + 1.0F;
  const auto exponent = static_cast<std::uint32_t>(static_cast<std::int32_t>(n) + 127) << 23;
  const float value = poly * std::bit_cast<float>(exponent);
  return x == -kInfinity ? 0.0F : value;
}

// Largest logit. A NaN never wins a comparison here; it is caught by the normaliser.
MTPCHECK_CLONES float largest(const float* logits, std::size_t size) {
  std::array<float, kLanes> best;
  best.fill(-kInfinity);
  std::size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) best[lane] = std::max(best[lane], logits[i + lane]);
  }
  for (; i < size; ++i) best[0] = std::max(best[0], logits[i]);
  return *std::max_element(best.begin(), best.end());
}

// Σ exp((logit − top) / temperature).
MTPCHECK_CLONES double sum_of_exponentials(const float* logits, std::size_t size, float top,
                                           float inverse_temperature) {
  double total = 0;
  for (std::size_t block = 0; block < size; block += kBlock) {
    const std::size_t end = std::min(size, block + kBlock);
    std::array<float, kLanes> sums{};
    std::size_t i = block;
    for (; i + kLanes <= end; i += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        sums[lane] += exp_of_negative((logits[i + lane] - top) * inverse_temperature);
      }
    }
    for (; i < end; ++i) sums[0] += exp_of_negative((logits[i] - top) * inverse_temperature);
    for (const float sum : sums) total += sum;
  }
  return total;
}

// Σ exp(min(a·s − x, b·s − y)), x and y the log-normalisers.
MTPCHECK_CLONES double sum_of_minima(const float* a, const float* b, std::size_t size, float x, float y, float scale) {
  double total = 0;
  for (std::size_t block = 0; block < size; block += kBlock) {
    const std::size_t end = std::min(size, block + kBlock);
    std::array<float, kLanes> sums{};
    std::size_t i = block;
    for (; i + kLanes <= end; i += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        sums[lane] += exp_of_negative(std::min(a[i + lane] * scale - x, b[i + lane] * scale - y));
      }
    }
    for (; i < end; ++i) sums[0] += exp_of_negative(std::min(a[i] * scale - x, b[i] * scale - y));
    for (const float sum : sums) total += sum;
  }
  return total;
}

struct Top {
  std::size_t index;
  float value;
  float margin;
};

// First index of the largest and the gap to the runner-up.
Top top_of(std::span<const float> logits) {
  const float value = largest(logits.data(), logits.size());
  const auto first = static_cast<std::size_t>(std::find(logits.begin(), logits.end(), value) - logits.begin());
  if (first >= logits.size()) return {0, std::numeric_limits<float>::quiet_NaN(), 0};
  const float before = largest(logits.data(), first);
  const float after = largest(logits.data() + first + 1, logits.size() - first - 1);
  return {first, value, value - std::max(before, after)};
}

double log_normaliser(std::span<const float> logits, float top, double temperature) {
  const auto scale = static_cast<float>(1 / temperature);
  return top / temperature + std::log(sum_of_exponentials(logits.data(), logits.size(), top, scale));
}

}  // namespace

RowStatistics row_statistics(std::span<const float> target, std::span<const float> draft, double temperature) {
  const Top p = top_of(target);
  const Top q = top_of(draft);
  RowStatistics row;
  row.target_argmax = p.index;
  row.draft_argmax = q.index;
  row.target_margin = p.margin;
  row.draft_margin = q.margin;
  row.target_log_normaliser = log_normaliser(target, p.value, temperature);
  row.draft_log_normaliser = log_normaliser(draft, q.value, temperature);
  row.expected_acceptance =
      sum_of_minima(target.data(), draft.data(), target.size(), static_cast<float>(row.target_log_normaliser),
                    static_cast<float>(row.draft_log_normaliser), static_cast<float>(1 / temperature));
  return row;
}

bool is_sound(const RowStatistics& row) {
  return std::isfinite(row.target_log_normaliser) && std::isfinite(row.draft_log_normaliser);
}

double probability(std::span<const float> logits, std::size_t token, double log_normaliser, double temperature) {
  return std::exp(static_cast<double>(logits[token]) / temperature - log_normaliser);
}

}  // namespace mtpcheck
