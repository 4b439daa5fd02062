#include "harness/parity/comparison/pooled_noise.h"

#include <utility>

#include "harness/parity/metrics/error_sums.h"

namespace mtpcheck {

RelativeNoise pooled_noise(const Trace& truth, const Trace& rounded) {
  std::map<Stage, std::pair<ErrorSums, std::size_t>> sums;
  for (const auto& [key, tensor] : truth) {
    const Tensor* const noisy = find(rounded, key);
    if (info(key.stage).kind != StageKind::values || noisy == nullptr || noisy->shape != tensor.shape) continue;
    auto& [sum, tensors] = sums[key.stage];
    append(sum, compare_values(noisy->view(), tensor.view()), 0);
    ++tensors;
  }
  RelativeNoise noise;
  for (const auto& [stage, pooled] : sums) {
    if (pooled.second > 1 && pooled.first.reference_squares > 0) noise[stage] = pooled.first.relative_l2();
  }
  return noise;
}

double noise_at(const RelativeNoise& noise, Stage stage) {
  const auto found = noise.find(stage);
  return found == noise.end() ? 0 : found->second;
}

}  // namespace mtpcheck
