#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cuda/head/shape.h"
#include "cuda/head/upload.h"
#include "cuda/runtime/memory.h"
#include "reference/model/weights.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// SwiGLU's matrices; experts are stacked.
struct DeviceMlp {
  DeviceMatrix gate, up, down;
};

/// A matrix whose product stays in float32: router, lm_head. Stored as float32, it is not rounded.
struct WideMatrix {
  std::optional<DeviceMatrix> narrow;
  const float* data = nullptr;  ///< [rows, row_stride(cols)]
  Buffer<float> wide;           ///< what `data` points to, unless that is somebody else's memory
  int rows = 0;
  int cols = 0;
};

/// One MTP layer in device memory. Matrices may be views of somebody else's memory.
struct DeviceLayer {
  Buffer<float> enorm, hnorm, input_layernorm, post_attention_layernorm, final_layernorm;
  Buffer<float> q_a_layernorm, kv_a_layernorm;
  DeviceMatrix eh_proj, q_a_proj, kv_a_proj, q_b_proj, o_proj;
  std::optional<DeviceMatrix> linear_gate;
  DeviceMatrix absorb_query;  ///< N stacked [Lkv, n]: (W_uk)ᵀ
  DeviceMatrix expand_value;  ///< N stacked [v, Lkv]: W_uv
  Buffer<float> sink;         ///< [N] or empty

  std::optional<DeviceMatrix> index_query, index_key, index_weights;
  Buffer<float> index_norm_weight, index_norm_bias;

  std::optional<WideMatrix> router;
  Buffer<float> expert_bias;
  std::optional<DeviceMlp> experts;
  std::optional<DeviceMlp> plain;  ///< the shared expert, or the dense MLP
  WideMatrix lm_head;
};

/// All that a head computes with.
struct DeviceWeights {
  const __nv_bfloat16* embedding = nullptr;  ///< [V, row_stride(H)]
  Buffer<__nv_bfloat16> embedding_bytes;     ///< what `embedding` points to, unless that is somebody else's memory
  std::vector<DeviceLayer> layers;
  std::shared_ptr<const void> storage;  ///< keeps alive what the views point to
};

DeviceWeights upload_weights(Stream stream, const HeadShape& shape, const HeadWeights& weights);

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
