#include "reference/protocol/distribution.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

void check(const SamplingParameters& parameters) {
  if (!(parameters.temperature >= 0)) {
    throw usage_error(fmt::format("temperature {}: 0 (greedy) or more was expected", parameters.temperature));
  }
  if (!(parameters.top_p > 0 && parameters.top_p <= 1)) {
    throw usage_error(fmt::format("top-p {}: more than 0 and at most 1 was expected", parameters.top_p));
  }
  if (!(parameters.min_p >= 0 && parameters.min_p <= 1)) {
    throw usage_error(fmt::format("min-p {}: between 0 and 1 was expected", parameters.min_p));
  }
}

// Indices of the kept tokens by falling probability, ties to the lowest index.
std::vector<std::size_t> by_probability(const Distribution& weights) {
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return weights[a] > weights[b]; });
  return order;
}

void normalise(Distribution& weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= total;
}

// Zeroes all but the `top_k` largest and, of these, the smallest set that reaches top_p.
void keep_largest(Distribution& weights, const SamplingParameters& parameters) {
  const auto order = by_probability(weights);
  std::size_t kept = parameters.top_k == 0 ? order.size() : std::min(parameters.top_k, order.size());
  if (parameters.top_p < 1) {
    double total = 0;
    for (std::size_t i = 0; i < kept; ++i) total += weights[order[i]];
    double reached = 0;
    std::size_t count = 0;
    while (count < kept && reached < parameters.top_p * total) reached += weights[order[count++]];
    kept = std::max<std::size_t>(count, 1);
  }
  for (std::size_t i = kept; i < order.size(); ++i) weights[order[i]] = 0;
}

}  // namespace

std::size_t argmax(std::span<const float> logits, const char* where) {
  std::size_t best = 0;
  float largest = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i])) throw input_error(fmt::format("{}: NaN at token {}", where, i));
    if (logits[i] > largest) {
      largest = logits[i];
      best = i;
    }
  }
  if (std::isinf(largest) && largest < 0) throw input_error(fmt::format("{}: every logit is -inf", where));
  return best;
}

Distribution distribution(std::span<const float> logits, const SamplingParameters& parameters) {
  check(parameters);
  const std::size_t best = argmax(logits);
  Distribution weights(logits.size(), 0.0);
  if (parameters.temperature == 0) {
    weights[best] = 1;
    return weights;
  }
  const double largest = logits[best];
  if (std::isinf(largest)) throw input_error(fmt::format("logits: +inf at token {}", best));
  for (std::size_t i = 0; i < logits.size(); ++i) {
    weights[i] = std::exp((static_cast<double>(logits[i]) - largest) / parameters.temperature);
  }
  if (parameters.top_k != 0 || parameters.top_p < 1) keep_largest(weights, parameters);
  // The largest weight is exp(0) = 1.
  for (double& weight : weights) weight = weight < parameters.min_p ? 0 : weight;
  normalise(weights);
  return weights;
}

std::size_t sample(const Distribution& probabilities, double uniform) {
  const double total = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  double reached = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    if (probabilities[i] <= 0) continue;
    reached += probabilities[i];
    last = i;
    if (uniform * total < reached) return i;
  }
  return last;  // rounding left the sum a hair short
}

double expected_acceptance(std::span<const double> target, std::span<const double> draft) {
  double sum = 0;
  for (std::size_t i = 0; i < target.size(); ++i) sum += std::min(target[i], draft[i]);
  return sum;
}

std::optional<Distribution> residual(std::span<const double> target, std::span<const double> draft) {
  Distribution rest(target.size());
  double mass = 0;
  for (std::size_t i = 0; i < target.size(); ++i) {
    rest[i] = std::max(target[i] - draft[i], 0.0);
    mass += rest[i];
  }
  if (mass <= 0) return std::nullopt;
  for (double& value : rest) value /= mass;
  return rest;
}

}  // namespace mtpcheck
