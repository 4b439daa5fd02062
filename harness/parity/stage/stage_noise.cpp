#include "harness/parity/stage/stage_noise.h"

#include <utility>

namespace mtpcheck {

std::size_t tokens_of(Stage stage, const Shape& shape) {
  if (shape.empty()) return 1;
  return stage == Stage::attn_probs && shape.size() == 3 ? shape[1] : shape[0];
}

std::vector<ErrorSums> compare_tokens(Stage stage, const TensorView& tensor, const TensorView& truth) {
  const std::size_t tokens = tokens_of(stage, truth.shape);
  const std::size_t heads = stage == Stage::attn_probs && truth.shape.size() == 3 ? truth.shape[0] : 1;
  std::vector<ErrorSums> sums = compare_rows(tensor, truth, heads * tokens);
  for (std::size_t i = tokens; i < sums.size(); ++i) append(sums[i % tokens], sums[i], 0);
  sums.resize(tokens);
  return sums;
}

void add_sample(StageNoise& noise, Stage stage, const TensorView& rounded, const TensorView& exact) {
  const auto tokens = compare_tokens(stage, rounded, exact);
  noise.tokens.resize(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) append(noise.tokens[i], tokens[i], 0);
  ++noise.samples;
}

StageNoise noise_of(Stage stage, const TensorView& rounded, const TensorView& exact) {
  StageNoise noise;
  add_sample(noise, stage, rounded, exact);
  return noise;
}

NoiseByStage noise_by_stage(const Trace& rounded, const Trace& exact) {
  NoiseByStage noise;
  for (const auto& [key, tensor] : exact) {
    const Tensor* const noisy = find(rounded, key);
    if (info(key.stage).kind != StageKind::values || noisy == nullptr || noisy->shape != tensor.shape) continue;
    noise.emplace(key, noise_of(key.stage, noisy->view(), tensor.view()));
  }
  return noise;
}

RelativeNoise pooled_noise(const NoiseByStage& noise) {
  std::map<Stage, std::pair<ErrorSums, std::size_t>> sums;
  for (const auto& [key, one] : noise) {
    auto& [sum, tensors] = sums[key.stage];
    for (const auto& token : one.tokens) append(sum, token, 0);
    ++tensors;
  }
  RelativeNoise relative;
  for (const auto& [stage, pooled] : sums) {
    if (pooled.second > 1 && pooled.first.reference_squares > 0) relative[stage] = pooled.first.relative_l2();
  }
  return relative;
}

double noise_at(const RelativeNoise& noise, Stage stage) {
  const auto found = noise.find(stage);
  return found == noise.end() ? 0 : found->second;
}

}  // namespace mtpcheck
