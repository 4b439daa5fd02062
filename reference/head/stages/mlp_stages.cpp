#include "reference/head/stages/mlp_stages.h"

#include <cmath>
#include <vector>

#include "reference/head/stages/projection.h"
#include "reference/linear/linear.h"
#include "reference/math/activation.h"

namespace mtpcheck {
namespace {

/// Rows 0, 2, 4, … of [gate; up] taken as gate, the others as up: the layout of gpt-oss.
template <class S>
void interleave(Rows<S>& gate, Rows<S>& up) {
  Rows<S> both(gate.rows(), gate.cols() + up.cols());
  both << gate, up;
  for (Eigen::Index i = 0; i < gate.cols(); ++i) {
    gate.col(i) = both.col(2 * i);
    up.col(i) = both.col(2 * i + 1);
  }
}

/// gate x and up x of [gate; up] read transposed, where that is square; as they are elsewhere.
template <class S>
void transpose_packed(const LayerDefinition& layer, const Rows<S>& x, const MlpWeights& w, Rows<S>& gate, Rows<S>& up) {
  if (w.gate.rows + w.up.rows != w.gate.cols) return;
  Rows<S> both(x.cols(), x.cols());
  both << decode_all<S>(as_read(layer, w.gate)), decode_all<S>(as_read(layer, w.up));
  Rows<S> product = x * both;
  round_all(layer.rounding.format_at(RoundingPoint::linear_output), product);
  gate = product.leftCols(gate.cols());
  up = product.rightCols(up.cols());
}

/// down(swiglu(gate x, up x)), the last product not rounded.
template <class S>
Rows<S> mlp(const LayerDefinition& layer, const Rows<S>& x, const MlpWeights& w, double limit) {
  auto gate = linear_of(layer, x, w.gate);
  auto up = linear_of(layer, x, w.up);
  if (layer.deviations.swap_gate_up) gate.swap(up);
  if (layer.deviations.interleaved_gate_up) interleave(gate, up);
  if (layer.deviations.transposed_gate_up) transpose_packed(layer, x, w, gate, up);
  const auto& rounding = layer.rounding;
  const auto activated =
      swiglu(gate, up, limit, rounding.format_at(RoundingPoint::silu), rounding.format_at(RoundingPoint::mlp_product));
  return project(layer, activated, w.down);
}

Vector bias_of(const LayerDefinition& layer) {
  Vector bias = layer.deviations.ignore_expert_bias ? Vector{} : layer.weights.moe->expert_bias;
  if (layer.deviations.expert_bias_bf16) {
    for (auto& b : bias) b = static_cast<double>(round_to_bf16(static_cast<float>(b)));
  }
  return bias;
}

template <class S>
Rows<S> softmax_as_logits(const Rows<S>& logits) {
  // sigmoid⁻¹ of the softmax, so that what follows takes the softmax for its scores.
  Rows<S> out(logits.rows(), logits.cols());
  for (Eigen::Index t = 0; t < logits.rows(); ++t) {
    const S top = logits.row(t).maxCoeff();
    const Row<S> e = logits.row(t).unaryExpr([top](S x) { return std::exp(x - top); });
    const S sum = e.sum();
    for (Eigen::Index i = 0; i < logits.cols(); ++i) out(t, i) = std::log(e(i) / (sum - e(i)));
  }
  return out;
}

template <class S>
Rows<S> logits_used(const Frame<S>& frame) {
  const auto& logits = frame.at(Stage::router_logits);
  return frame.layer.deviations.softmax_router ? softmax_as_logits(logits) : logits;
}

/// Which rows chose an expert, and at which place of theirs.
struct Use {
  Eigen::Index row;
  Eigen::Index place;
};

std::vector<std::vector<Use>> uses_of_experts(const ExpertChoice& choice, std::size_t experts) {
  std::vector<std::vector<Use>> uses(experts);
  for (std::size_t t = 0; t < choice.size(); ++t) {
    for (std::size_t k = 0; k < choice[t].size(); ++k) {
      uses[static_cast<std::size_t>(choice[t][k])].push_back(
          {static_cast<Eigen::Index>(t), static_cast<Eigen::Index>(k)});
    }
  }
  return uses;
}

}  // namespace

template <class S>
Rows<S> router_logits(const Frame<S>& frame) {
  return project(frame.layer, frame.at(Stage::post_attention_layernorm), frame.layer.weights.moe->router);
}

template <class S>
ExpertChoice compute_topk_experts(const Frame<S>& frame) {
  const auto& layer = frame.layer;
  const bool grouped = layer.conventions.group_routing;
  const ExpertGroups groups = grouped ? ExpertGroups{layer.config.n_group, layer.config.topk_group} : ExpertGroups{};
  return choose_experts(selection_scores(logits_used(frame), bias_of(layer), groups), layer.config.num_experts_per_tok);
}

template <class S>
Rows<S> topk_weights(const Frame<S>& frame) {
  const auto& layer = frame.layer;
  const auto& deviations = layer.deviations;
  const double factor = std::pow(layer.config.routed_scaling_factor, deviations.scaling_factor_times);
  const bool normalise = layer.config.norm_topk_prob && !deviations.weights_not_normalised;
  if (!deviations.expert_bias_in_weights) {
    return expert_weights(logits_used(frame), frame.topk_experts, normalise, factor);
  }
  const auto scores = selection_scores(logits_used(frame), bias_of(layer), {});
  Rows<S> weights(scores.rows(), static_cast<Eigen::Index>(layer.config.num_experts_per_tok));
  for (Eigen::Index t = 0; t < weights.rows(); ++t) {
    for (Eigen::Index k = 0; k < weights.cols(); ++k) weights(t, k) = scores(t, frame.topk_experts[t][k]);
    if (normalise) weights.row(t) /= weights.row(t).sum() + static_cast<S>(1e-20);
  }
  return weights * static_cast<S>(factor);
}

template <class S>
Rows<S> experts_out(const Frame<S>& frame) {
  const auto& layer = frame.layer;
  const auto& rounding = layer.rounding;
  const auto& x = frame.at(Stage::post_attention_layernorm);
  const auto& weights = frame.at(Stage::topk_weights);
  const double limit = layer.deviations.no_clamp ? 0 : layer.config.swiglu_limit;
  const Format sum_format = rounding.format_at(RoundingPoint::expert_sum);
  Rows<S> out = Rows<S>::Zero(x.rows(), x.cols());
  const auto uses = uses_of_experts(frame.topk_experts, layer.weights.moe->experts.size());
  for (std::size_t e = 0; e < uses.size(); ++e) {  // ascending, so each row's sum has one order
    if (uses[e].empty()) continue;
    Rows<S> rows(static_cast<Eigen::Index>(uses[e].size()), x.cols());
    for (Eigen::Index i = 0; i < rows.rows(); ++i) rows.row(i) = x.row(uses[e][i].row);
    auto y = mlp(layer, rows, layer.weights.moe->experts[e], limit);
    round_all(rounding.format_at(RoundingPoint::expert_down), y);
    for (Eigen::Index i = 0; i < rows.rows(); ++i) {
      const auto [row, place] = uses[e][i];
      const Eigen::Index shift = layer.deviations.weights_of_next_choice ? 1 : 0;
      y.row(i) *= weights(row, (place + shift) % weights.cols());
      round_all(rounding.format_at(RoundingPoint::expert_weighted), y.data() + i * y.cols(),
                static_cast<std::size_t>(y.cols()));
      out.row(row) += y.row(i);
      round_all(sum_format, out.data() + row * out.cols(), static_cast<std::size_t>(out.cols()));
    }
  }
  round_all(rounding.format_at(RoundingPoint::mlp_sum), out);
  return out;
}

template <class S>
Rows<S> shared_out(const Frame<S>& frame) {
  const auto& layer = frame.layer;
  const double limit = layer.deviations.clamp_shared ? layer.config.swiglu_limit : 0;
  auto y = mlp(layer, frame.at(Stage::post_attention_layernorm), *layer.weights.moe->shared, limit);
  if (layer.deviations.scaling_factor_on_shared) y *= static_cast<S>(layer.config.routed_scaling_factor);
  round_all(layer.rounding.format_at(RoundingPoint::linear_output), y);
  return y;
}

template <class S>
Rows<S> mlp_out(const Frame<S>& frame) {
  const auto& layer = frame.layer;
  Rows<S> y;
  if (!layer.config.sparse_mlp) {
    y = mlp(layer, frame.at(Stage::post_attention_layernorm), *layer.weights.mlp, 0);
  } else {
    y = frame.at(Stage::experts_out);
    if (layer.config.n_shared_experts > 0 && !layer.deviations.skip_shared) y += frame.at(Stage::shared_out);
  }
  round_all(layer.rounding.format_at(RoundingPoint::mlp_sum), y);
  return y;
}

template Rows<float> router_logits(const Frame<float>&);
template Rows<double> router_logits(const Frame<double>&);
template ExpertChoice compute_topk_experts(const Frame<float>&);
template ExpertChoice compute_topk_experts(const Frame<double>&);
template Rows<float> topk_weights(const Frame<float>&);
template Rows<double> topk_weights(const Frame<double>&);
template Rows<float> experts_out(const Frame<float>&);
template Rows<double> experts_out(const Frame<double>&);
template Rows<float> shared_out(const Frame<float>&);
template Rows<double> shared_out(const Frame<double>&);
template Rows<float> mlp_out(const Frame<float>&);
template Rows<double> mlp_out(const Frame<double>&);

}  // namespace mtpcheck
