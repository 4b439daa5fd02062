#include "cuda/head/layer_weights.h"

#include <vector>

namespace mtpcheck::cuda::inline SIMT_BACKEND {
namespace {

WideMatrix upload_wide(Stream stream, const Matrix& matrix) {
  WideMatrix out;
  out.rows = static_cast<int>(matrix.rows);
  out.cols = static_cast<int>(matrix.cols);
  if (matrix.dtype == Dtype::f32 || matrix.dtype == Dtype::f64 || matrix.dtype == Dtype::f16) {
    out.wide = upload_f32(stream, matrix);
    out.data = out.wide.data();
  } else {
    out.narrow = upload_matrix(stream, matrix);
  }
  return out;
}

/// The kernels read gate and up in one format: if their own differ, in bf16, which every format can be decoded to.
DeviceMlp upload_stacks(Stream stream, std::span<const Matrix> gate, std::span<const Matrix> up,
                        std::span<const Matrix> down) {
  DeviceMlp out{upload_matrices(stream, gate), upload_matrices(stream, up), upload_matrices(stream, down)};
  if (out.gate.view.format != out.up.view.format) {
    out.gate = upload_decoded(stream, gate);
    out.up = upload_decoded(stream, up);
  }
  return out;
}

DeviceMlp upload_mlp(Stream stream, const MlpWeights& w) {
  return upload_stacks(stream, {&w.gate, 1}, {&w.up, 1}, {&w.down, 1});
}

DeviceMlp upload_experts(Stream stream, const std::vector<MlpWeights>& experts) {
  std::vector<Matrix> gate;
  std::vector<Matrix> up;
  std::vector<Matrix> down;
  for (const auto& expert : experts) {
    gate.push_back(expert.gate);
    up.push_back(expert.up);
    down.push_back(expert.down);
  }
  return upload_stacks(stream, gate, up, down);
}

Vector or_zeros(const Vector& values, int count) { return values.empty() ? Vector(count, 0.0) : values; }

DeviceLayer upload_layer(Stream stream, const HeadShape& shape, const LayerWeights& w) {
  DeviceLayer out;
  out.enorm = upload_vector(stream, w.enorm);
  out.hnorm = upload_vector(stream, w.hnorm);
  out.input_layernorm = upload_vector(stream, w.input_layernorm);
  out.post_attention_layernorm = upload_vector(stream, w.post_attention_layernorm);
  out.final_layernorm = upload_vector(stream, w.final_layernorm);
  out.q_a_layernorm = upload_vector(stream, w.q_a_layernorm);
  out.kv_a_layernorm = upload_vector(stream, w.kv_a_layernorm);
  out.eh_proj = upload_matrix(stream, w.eh_proj);
  out.q_a_proj = upload_matrix(stream, w.q_a_proj);
  out.kv_a_proj = upload_matrix(stream, w.kv_a_proj);
  out.q_b_proj = upload_matrix(stream, w.q_b_proj);
  out.o_proj = upload_matrix(stream, w.o_proj);
  if (!w.linear_gate.empty()) out.linear_gate = upload_matrix(stream, w.linear_gate);

  const int head_rows = shape.nope + shape.value;
  out.absorb_query = upload_transposed_pieces(stream, w.kv_b_proj, shape.heads, head_rows, shape.nope);
  std::vector<Matrix> values;
  values.reserve(static_cast<std::size_t>(shape.heads));
  for (int h = 0; h < shape.heads; ++h) {
    values.push_back(rows_of(w.kv_b_proj, static_cast<std::size_t>(h) * head_rows + shape.nope, shape.value));
  }
  out.expand_value = upload_matrices(stream, values);
  out.sink = upload_vector(stream, w.sink);

  if (w.indexer) {
    out.index_query = upload_matrix(stream, w.indexer->wq_b);
    out.index_key = upload_matrix(stream, w.indexer->wk);
    out.index_weights = upload_matrix(stream, w.indexer->weights_proj);
    out.index_norm_weight = upload_vector(stream, w.indexer->k_norm_weight);
    out.index_norm_bias = upload_vector(stream, or_zeros(w.indexer->k_norm_bias, shape.index_dims));
  }
  if (w.moe) {
    out.router = upload_wide(stream, w.moe->router);
    out.expert_bias = upload_vector(stream, or_zeros(w.moe->expert_bias, shape.experts));
    out.experts = upload_experts(stream, w.moe->experts);
    if (w.moe->shared) out.plain = upload_mlp(stream, *w.moe->shared);
  } else {
    out.plain = upload_mlp(stream, *w.mlp);
  }
  out.lm_head = upload_wide(stream, w.lm_head);
  return out;
}

}  // namespace

DeviceWeights upload_weights(Stream stream, const HeadShape& shape, const HeadWeights& weights) {
  DeviceWeights out;
  out.embedding_bytes = upload_bf16_rows(stream, weights.embed_tokens);
  out.embedding = out.embedding_bytes.data();
  for (const auto& layer : weights.layers) out.layers.push_back(upload_layer(stream, shape, layer));
  return out;
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
