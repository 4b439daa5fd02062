#pragma once

#include <cstdint>

#include "cuda/device/floor.h"
#include "cuda/head/activations.h"
#include "cuda/head/caches.h"
#include "cuda/head/layer.h"
#include "cuda/head/layer_weights.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// A layer of the given shape for timing: constant weights (their bytes are what counts), random hidden states, index
/// keys and choices of experts, caches of `keys` rows a sequence.
class SyntheticStep {
 public:
  SyntheticStep(Stream stream, const HeadShape& shape, WeightStorage storage, int most_tokens, int keys);

  /// Enqueues one step of `tokens` sequences with a row each, the greedy choice included.
  void enqueue(int tokens, const LayerDemands& demands = {}) const;
  /// Once before: allocates what a step of `tokens` needs.
  void prepare(int tokens);

 private:
  Stream stream_;
  LayerSettings settings_;
  int keys_;
  DeviceLayer layer_;
  LayerCache cache_;
  Buffer<double> half_turns_;
  Buffer<__nv_bfloat16> embedding_, hidden_;
  Buffer<std::int32_t> ids_, positions_, cache_rows_, key_bases_, key_counts_, experts_;
  Buffer<unsigned long long> choice_;
  std::unique_ptr<Activations> activations_;
  mutable GemmLibrary library_;
};

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
