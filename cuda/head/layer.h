#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <functional>
#include <string_view>

#include "cuda/head/activations.h"
#include "cuda/head/caches.h"
#include "cuda/head/layer_weights.h"
#include "cuda/head/shape.h"
#include "cuda/kernels/norm/rope_table.h"
#include "cuda/runtime/gemm_library.h"
#include "reference/model/config.h"
#include "reference/model/conventions.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// What a layer computes with, besides its weights.
struct LayerSettings {
  HeadShape shape;
  bool gated = true;
  bool headwise_gate = false;
  float eps = 0, latent_eps = 0, index_eps = 0;
  float attention_scale = 1;
  float swiglu_limit = 0;
  bool normalise_experts = true;
  float expert_scale = 1;
  int expert_groups = 1, used_groups = 1;
  bool position_zero_mask = true;
  bool index_fp8 = false;
  RopeTable rope, index_rope;
};

/// Everything but the RoPE tables, which live in device memory.
LayerSettings layer_settings(const HeadConfig& config, const Conventions& conventions);

/// A step's rows in device memory, [T] each.
struct StepRows {
  int tokens = 0;
  int max_keys = 0;  ///< the largest of key_counts, or a bound of it
  const std::int32_t* ids = nullptr;
  const std::int32_t* positions = nullptr;
  const std::int32_t* cache_rows = nullptr;      ///< where the token's own latent goes
  const std::int32_t* key_bases = nullptr;       ///< cache row of its sequence's first key
  const std::int32_t* key_counts = nullptr;      ///< keys it sees: its own is the last
  const __nv_bfloat16* hidden_states = nullptr;  ///< [T, H]
  const __nv_bfloat16* inputs_embeds = nullptr;  ///< [T, H]; nullptr: the embedding of ids
  const std::int32_t* forced_keys = nullptr;     ///< [T, k], −1 at the end; nullptr: the indexer's
  const std::int32_t* forced_experts = nullptr;  ///< [T, K]; nullptr: the router's
};

/// What is computed for a recording only.
struct LayerDemands {
  bool embed_masked = false, experts_out = false, shared_out = false, mlp_out = false;
  /// Called with every chunk of index scores: [count, max_keys] for rows from `first` on, −∞ beyond each row's keys.
  /// Their T × S matrix exists in pieces only, and not at all where no row has more keys than it may select.
  std::function<void(int first, int count, const float* scores)> scores;
  /// Called before each part of the layer is enqueued, by the names of device/floor.h: for timing.
  std::function<void(std::string_view part)> before_part;
};

/// Runs one MTP layer: all kernels, in stream order, without allocation or synchronisation (but for a recording's).
void run_layer(Stream stream, const LayerSettings& settings, const DeviceLayer& weights, const __nv_bfloat16* embedding,
               const LayerCache& cache, const StepRows& rows, const Activations& activations, GemmLibrary& library,
               const LayerDemands& demands = {});

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
