#include "reference/head/stages/attention_stages.h"

#include <algorithm>
#include <vector>

#include "reference/head/stages/projection.h"
#include "reference/math/activation.h"

namespace mtpcheck {

template <class S>
Rotation<S> rotation_of(const Frame<S>& frame) {
  const auto& layer = frame.layer;
  std::vector<std::int64_t> positions = frame.input.positions;
  for (auto& position : positions)
    position = layer.deviations.rope_dropped ? 0 : position + layer.deviations.position_shift;
  const std::int64_t last = positions.empty() ? 0 : std::ranges::max(positions);
  RopeParameters parameters = layer.config.rope;
  if (layer.deviations.rope_unscaled) parameters.type = "default";
  parameters.theta = layer.deviations.rope_theta.value_or(parameters.theta);
  const auto frequencies =
      rope_frequencies<S>(parameters, layer.config.qk_rope_head_dim, layer.config.max_position_embeddings,
                          static_cast<std::size_t>(std::max<std::int64_t>(last, 0)) + 1);
  return rotation<S>(positions, frequencies, layer.rounding.format_at(RoundingPoint::rope_table));
}

template <class S>
Rows<S> q_rope(const Frame<S>& frame) {
  const auto& c = frame.layer.config;
  const std::size_t size = c.qk_nope_head_dim + c.qk_rope_head_dim;
  const auto pe =
      columns_of_groups(frame.at(Stage::q), c.num_attention_heads, size, c.qk_nope_head_dim, c.qk_rope_head_dim);
  auto out = rotate(pe, c.num_attention_heads, rotation_of(frame), frame.layer.conventions.rope);
  round_all(frame.layer.rounding.format_at(RoundingPoint::rope_output), out);
  return out;
}

template <class S>
Rows<S> kv_c(const Frame<S>& frame) {
  const auto& layer = frame.layer;
  const Rows<S> latent = frame.at(Stage::kv_a).leftCols(layer.config.kv_lora_rank);
  return norm_of(layer, latent, layer.weights.kv_a_layernorm,
                 layer.conventions.latent_norm_eps.value_or(layer.config.rms_norm_eps));
}

template <class S>
Rows<S> k_pe(const Frame<S>& frame) {
  const Rows<S> pe = frame.at(Stage::kv_a).rightCols(frame.layer.config.qk_rope_head_dim);
  auto out = rotate(pe, 1, rotation_of(frame), frame.layer.conventions.rope);
  round_all(frame.layer.rounding.format_at(RoundingPoint::rope_output), out);
  return out;
}

template <class S>
Rows<S> gate(const Frame<S>& frame) {
  const auto& layer = frame.layer;
  auto per_head = linear_of(layer, frame.at(Stage::input_layernorm), layer.weights.linear_gate);
  if (layer.config.gate != GateKind::headwise) return per_head;
  const std::size_t v = layer.config.v_head_dim;
  Rows<S> out(per_head.rows(), static_cast<Eigen::Index>(layer.config.num_attention_heads * v));
  for (Eigen::Index h = 0; h < per_head.cols(); ++h) {
    out.middleCols(h * static_cast<Eigen::Index>(v), static_cast<Eigen::Index>(v)).colwise() = per_head.col(h);
  }
  return out;
}

template <class S>
Rows<S> gated(const Frame<S>& frame) {
  const auto& layer = frame.layer;
  const auto& attn_out = frame.at(Stage::attn_out);
  if (layer.config.gate == GateKind::none || layer.deviations.ignore_gate) return attn_out;
  const Format sigmoid_format = layer.rounding.format_at(RoundingPoint::gate_sigmoid);
  const Format product_format = layer.rounding.format_at(RoundingPoint::gated);
  const bool bare = layer.deviations.gate_without_sigmoid;
  return attn_out.binaryExpr(frame.at(Stage::gate), [=](S a, S g) {
    return round_to(product_format, a * round_to(sigmoid_format, bare ? g : sigmoid(g)));
  });
}

template Rotation<float> rotation_of(const Frame<float>&);
template Rotation<double> rotation_of(const Frame<double>&);
template Rows<float> q_rope(const Frame<float>&);
template Rows<double> q_rope(const Frame<double>&);
template Rows<float> kv_c(const Frame<float>&);
template Rows<double> kv_c(const Frame<double>&);
template Rows<float> k_pe(const Frame<float>&);
template Rows<double> k_pe(const Frame<double>&);
template Rows<float> gate(const Frame<float>&);
template Rows<double> gate(const Frame<double>&);
template Rows<float> gated(const Frame<float>&);
template Rows<double> gated(const Frame<double>&);

}  // namespace mtpcheck
