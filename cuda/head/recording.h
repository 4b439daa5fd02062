#pragma once

#include <cstdint>
#include <vector>

#include "cuda/head/activations.h"
#include "cuda/head/caches.h"
#include "cuda/head/layer.h"
#include "reference/model/config.h"
#include "reference/model/head.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// A sequence's share of a step.
struct SequenceStep {
  int first = 0;   ///< row of the step
  int count = 0;   ///< rows of the step
  int cached = 0;  ///< keys cached before
  int keys() const { return cached + count; }
};

/// What a step left behind, to be recorded.
struct FinishedStep {
  Stream stream;
  const HeadConfig& config;
  const LayerSettings& settings;
  const DeviceLayer& weights;
  const LayerCache& cache;
  const StepRows& rows;
  const Activations& activations;
  const std::vector<SequenceStep>& sequences;
  const std::vector<float>& scores;  ///< [T, max_keys], where the sink wants them
};

/// Hands every stage that the sink wants to it, in order: bf16 where the step stores bf16, float32 where it keeps that
/// (router, index scores and weights, probabilities, logits), selections as i32.
void record_step(const FinishedStep& step, const ForwardOptions& options, StageSink& sink);

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
