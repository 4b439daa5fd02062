#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "cuda/head/layer_weights.h"
#include "cuda/head/step_input.h"
#include "cuda/torch/tensor_views.h"
#include "reference/model/config.h"

/// A draft head on LibTorch's tensors, as an engine has them: no weight and no input row is copied.
///
///   const at::Tensor hidden = …, ids = …;                                      // on the current device
///   cuda::CudaHead head(config, adopt_weights(stream, config, weights), conventions);
///   head.forward(adopt_input(config, {.input_ids = ids, .positions = …, .hidden_states = hidden, .cu_seqlens = {0,
///   T}},
///                            stream), {}, sink);
namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// SwiGLU's matrices; experts are stacks [E, I, H] and [E, H, I]. A fused [E, 2·I, H] is given as two narrow()s of it.
struct TensorMlp {
  TensorMatrix gate, up, down;
};

struct TensorIndexer {
  TensorMatrix wq_b, wk, weights_proj;
  at::Tensor k_norm_weight, k_norm_bias;
};

/// One MTP layer, by the names of reference/model/weights.h; vectors in any floating-point type.
struct TensorLayer {
  at::Tensor enorm, hnorm, final_layernorm, input_layernorm, post_attention_layernorm;
  TensorMatrix eh_proj, q_a_proj, q_b_proj, kv_a_proj, kv_b_proj, o_proj, linear_gate;
  at::Tensor q_a_layernorm, kv_a_layernorm;
  at::Tensor sink;  ///< undefined: none
  std::optional<TensorIndexer> indexer;
  at::Tensor router;  ///< [E, H] bf16 or float32; undefined with a dense MLP
  at::Tensor expert_bias;
  std::optional<TensorMlp> experts;
  std::optional<TensorMlp> plain;  ///< the shared expert, or the dense MLP
  at::Tensor lm_head;              ///< [V, H] bf16 or float32
};

struct TensorWeights {
  at::Tensor embed_tokens;  ///< [V, H] bf16
  std::vector<TensorLayer> layers;
};

/// The head's weights as views; they keep the tensors alive. Only what no engine keeps in the kernels' form is made
/// anew, on `stream`, the one that the tensors were written on: vectors in float32 (some kB), and the key half of
/// kv_b_proj transposed for absorption. Returns when that is done.
/// Throws Error{input} that names the first tensor that does not fit the config or tensor_views.h.
DeviceWeights adopt_weights(Stream stream, const HeadConfig& config, const TensorWeights& weights);

/// A batch's rows.
struct TensorInput {
  at::Tensor input_ids;      ///< [T] int32; not read where inputs_embeds are given
  at::Tensor positions;      ///< [T] int32
  at::Tensor hidden_states;  ///< [T, H] bf16
  at::Tensor inputs_embeds;  ///< [T, H] bf16, or undefined
  std::vector<std::int64_t> cu_seqlens;
};

/// The rows as CudaHead::forward takes them; the tensors must live until it returns. `stream` is the one that they were
/// written on: LibTorch's current stream.
DeviceInput adopt_input(const HeadConfig& config, const TensorInput& input, Stream stream);

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
