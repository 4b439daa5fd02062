#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "harness/parity/metrics/error_sums.h"
#include "harness/parity/trace/trace.h"
#include "reference/model/stages.h"
#include "reference/tensor/tensor.h"

namespace mtpcheck {

/// How many tokens a stage's tensor has: its first extent, or the second of attn_probs [N, T, S].
std::size_t tokens_of(Stage stage, const Shape& shape);

/// One tensor against another, by token; the heads of attn_probs [N, T, S] are put together. Both have the same shape.
std::vector<ErrorSums> compare_tokens(Stage stage, const TensorView& tensor, const TensorView& truth);

/// What rounding alone costs a stage, by token: the rounded reference against the exact one, on the compared input and
/// on as many nearby ones as were looked at.
struct StageNoise {
  std::vector<ErrorSums> tokens;  ///< [T] all samples together
  std::size_t samples = 0;
};

/// Both tensors have the shape of the samples before. NaNs of the two are left out.
void add_sample(StageNoise& noise, Stage stage, const TensorView& rounded, const TensorView& exact);

/// Of one sample.
StageNoise noise_of(Stage stage, const TensorView& rounded, const TensorView& exact);

using NoiseByStage = std::map<StageKey, StageNoise, ByComputation>;

/// Of every stage of real numbers that both traces have.
NoiseByStage noise_by_stage(const Trace& rounded, const Trace& exact);

/// By stage, the rounded reference's error over the stage's magnitude, of all draft steps and all sequences together.
/// Without the stages that have one tensor only.
using RelativeNoise = std::map<Stage, double>;

RelativeNoise pooled_noise(const NoiseByStage& noise);

/// 0 for a stage that is not in it.
double noise_at(const RelativeNoise& noise, Stage stage);

}  // namespace mtpcheck
