#include "reference/head/stages/indexer_stages.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "reference/head/stages/attention_stages.h"
#include "reference/head/stages/frame.h"
#include "reference/head/stages/projection.h"
#include "reference/math/indexer.h"
#include "reference/math/norm.h"
#include "reference/math/quantise.h"
#include "reference/math/topk.h"

namespace mtpcheck {
namespace {

/// The last r of each head's d entries rotated, the rest as they are.
template <class S>
void rotate_index_heads(const Frame<S>& frame, std::size_t heads, Rows<S>& x) {
  const auto& c = frame.layer.config;
  const std::size_t d = c.index_head_dim;
  const std::size_t rope = c.qk_rope_head_dim;
  const std::size_t first = frame.layer.deviations.rope_first_dims ? 0 : d - rope;
  auto rotated = rotate(columns_of_groups(x, heads, d, first, rope), heads, rotation_of(frame),
                        frame.layer.conventions.indexer_rope);
  round_all(frame.layer.rounding.format_at(RoundingPoint::rope_output), rotated);
  for (std::size_t h = 0; h < heads; ++h) x.middleCols(h * d + first, rope) = rotated.middleCols(h * rope, rope);
}

/// x [T, heads·d] quantised a head at a time: codes in place, scales [T, heads].
template <class S>
Rows<S> quantise_heads(Rows<S>& x, std::size_t d) {
  auto quantised = quantise(x, d, ScaleFormat::power_of_two);
  x = std::move(quantised.codes);
  return std::move(quantised.scales);
}

template <class S>
Rows<S> index_norm(const LayerDefinition& layer, const Rows<S>& k) {
  const auto& weights = *layer.weights.indexer;
  const double eps = layer.conventions.k_norm_eps.value_or(layer.config.rms_norm_eps);
  const Format format = layer.rounding.format_at(RoundingPoint::index_key_norm);
  const Vector bias = layer.deviations.index_norm_without_bias ? Vector{} : weights.k_norm_bias;
  if (layer.deviations.index_norm_without_mean) return rms_norm(k, weights.k_norm_weight, eps, {format});
  if (!layer.deviations.index_norm_bf16) return layer_norm(k, weights.k_norm_weight, bias, eps, format);
  Vector narrow_weight = weights.k_norm_weight;
  Vector narrow_bias = bias;
  for (auto& w : narrow_weight) w = static_cast<double>(round_to_bf16(static_cast<float>(w)));
  for (auto& b : narrow_bias) b = static_cast<double>(round_to_bf16(static_cast<float>(b)));
  Rows<S> out = layer_norm(k, narrow_weight, narrow_bias, eps, format);
  return out.unaryExpr([](S x) { return static_cast<S>(round_to_bf16(static_cast<float>(x))); });
}

template <class S>
std::size_t operations_a_row(const Frame<S>& frame, const SequenceRows<S>& sequence) {
  return sequence.keys() * frame.layer.config.index_n_heads * frame.layer.config.index_head_dim;
}

/// One row's scores against the keys it may see: 0 … count−1 of its sequence.
template <class S>
void score_row(const Frame<S>& frame, const SequenceRows<S>& sequence, std::size_t row, std::size_t count, S* scores) {
  const auto& c = frame.layer.config;
  const Eigen::Index t = static_cast<Eigen::Index>(sequence.first + row);
  Row<S> weights = frame.at(Stage::indexer_weights).row(t);
  if (frame.layer.conventions.indexer_fp8) weights.array() *= frame.indexer_q_scales.row(t).array();
  const auto& q = frame.at(Stage::indexer_q);
  const auto& cache = *sequence.cache;
  const std::span<const S> key_scales(cache.index_scales.data(),
                                      frame.layer.conventions.indexer_fp8 ? count : std::size_t{0});
  index_scores(q.data() + t * q.cols(), std::span<const S>(weights.data(), c.index_n_heads), c.index_head_dim,
               cache.index_keys.data(), c.index_head_dim, key_scales, count, scores,
               !frame.layer.deviations.index_without_relu);
}

}  // namespace

template <class S>
void compute_indexer_query(Frame<S>& frame) {
  const auto& layer = frame.layer;
  auto q = linear_of(layer, frame.at(Stage::q_c), layer.weights.indexer->wq_b);
  rotate_index_heads(frame, layer.config.index_n_heads, q);
  if (layer.conventions.indexer_fp8) frame.indexer_q_scales = quantise_heads(q, layer.config.index_head_dim);
  frame.at(Stage::indexer_q) = std::move(q);
}

template <class S>
void compute_indexer_key(Frame<S>& frame) {
  const auto& layer = frame.layer;
  auto k = index_norm(layer, linear_of(layer, frame.at(Stage::input_layernorm), layer.weights.indexer->wk));
  rotate_index_heads(frame, 1, k);
  if (layer.conventions.indexer_fp8) frame.indexer_k_scales = quantise_heads(k, layer.config.index_head_dim);
  frame.at(Stage::indexer_k) = std::move(k);
}

template <class S>
Rows<S> indexer_weights(const Frame<S>& frame) {
  const auto& layer = frame.layer;
  const auto d = static_cast<double>(layer.config.index_head_dim);
  const auto h = static_cast<double>(layer.config.index_n_heads);
  Rows<S> w = project(layer, frame.at(Stage::input_layernorm), layer.weights.indexer->weights_proj);
  round_all(layer.rounding.format_at(RoundingPoint::index_weights), w);
  return w * static_cast<S>(1.0 / std::sqrt(d) / std::sqrt(h));
}

template <class S>
void compute_index_scores(Frame<S>& frame) {
  frame.indexer_scores.clear();
  for (const auto& sequence : frame.sequences) {
    auto& scores = frame.indexer_scores.emplace_back(static_cast<Eigen::Index>(sequence.count),
                                                     static_cast<Eigen::Index>(sequence.keys()));
    scores.setConstant(-std::numeric_limits<S>::infinity());
    frame.layer.pool->for_each(sequence.count, operations_a_row(frame, sequence), [&](std::size_t row) {
      score_row(frame, sequence, row, sequence.cached + row + 1, scores.data() + row * sequence.keys());
    });
  }
}

template <class S>
KeyChoice compute_topk_indices(const Frame<S>& frame) {
  KeyChoice choice(frame.tokens());
  const std::size_t topk = frame.layer.config.index_topk;
  for (std::size_t s = 0; s < frame.sequences.size(); ++s) {
    const auto& sequence = frame.sequences[s];
    frame.layer.pool->for_each(sequence.count, operations_a_row(frame, sequence), [&](std::size_t row) {
      const std::size_t visible = sequence.cached + row + 1;
      if (!frame.indexer_scores.empty()) {
        const auto& scores = frame.indexer_scores[s];
        const S* const at = scores.data() + static_cast<Eigen::Index>(row) * scores.cols();
        choice[sequence.first + row] = largest(std::span<const S>(at, visible), topk);
        return;
      }
      Row<S> scores(static_cast<Eigen::Index>(visible));
      score_row(frame, sequence, row, visible, scores.data());
      choice[sequence.first + row] = largest(std::span<const S>(scores.data(), visible), topk);
    });
  }
  return choice;
}

template void compute_indexer_query(Frame<float>&);
template void compute_indexer_query(Frame<double>&);
template void compute_indexer_key(Frame<float>&);
template void compute_indexer_key(Frame<double>&);
template Rows<float> indexer_weights(const Frame<float>&);
template Rows<double> indexer_weights(const Frame<double>&);
template void compute_index_scores(Frame<float>&);
template void compute_index_scores(Frame<double>&);
template KeyChoice compute_topk_indices(const Frame<float>&);
template KeyChoice compute_topk_indices(const Frame<double>&);

}  // namespace mtpcheck
