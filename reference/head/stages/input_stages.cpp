#include "reference/head/stages/input_stages.h"

#include <type_traits>

#include "reference/head/stages/projection.h"
#include "reference/linear/linear.h"
#include "reference/tensor/tensor.h"

namespace mtpcheck {
namespace {

template <class S>
Rows<S> as_rows(const Tensor& tensor, std::size_t rows, std::size_t columns) {
  Rows<S> out(static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(columns));
  if constexpr (std::is_same_v<S, float>) {
    const auto values = to_f32(tensor.view());
    std::copy(values.begin(), values.end(), out.data());
  } else {
    const auto values = to_f64(tensor.view());
    std::copy(values.begin(), values.end(), out.data());
  }
  return out;
}

template <class S>
Rows<S> embeddings(const Frame<S>& frame) {
  const std::size_t hidden = frame.layer.config.hidden_size;
  if (!frame.input.inputs_embeds.bytes.empty()) return as_rows<S>(frame.input.inputs_embeds, frame.tokens(), hidden);
  Rows<S> out(static_cast<Eigen::Index>(frame.tokens()), static_cast<Eigen::Index>(hidden));
  for (std::size_t t = 0; t < frame.tokens(); ++t) {
    decode_row(frame.layer.embed_tokens, static_cast<std::size_t>(frame.input.input_ids[t]), 0, hidden,
               out.data() + t * hidden);
  }
  return out;
}

}  // namespace

template <class S>
Rows<S> embed_masked(const Frame<S>& frame) {
  Rows<S> embed = embeddings(frame);
  for (std::size_t t = 0; t < frame.tokens(); ++t) {
    const bool first = frame.layer.deviations.mask_first_row_only ? t == 0 : frame.input.positions[t] == 0;
    if (frame.layer.conventions.position_zero_mask && first) embed.row(t).setZero();
  }
  round_all(frame.layer.rounding.format_at(RoundingPoint::input), embed);
  return embed;
}

template <class S>
Rows<S> hnorm(const Frame<S>& frame) {
  const auto& layer = frame.layer;
  Rows<S> hidden = as_rows<S>(frame.input.hidden_states, frame.tokens(), layer.config.hidden_size);
  round_all(layer.rounding.format_at(RoundingPoint::input), hidden);
  if (layer.deviations.skip_hnorm) return hidden;
  return norm_of(layer, hidden, layer.weights.hnorm, layer.config.rms_norm_eps);
}

template <class S>
Rows<S> eh_proj(const Frame<S>& frame) {
  const auto& enorm = frame.at(Stage::enorm);
  const auto& hnorm = frame.at(Stage::hnorm);
  Rows<S> both(enorm.rows(), enorm.cols() + hnorm.cols());
  if (frame.layer.deviations.swap_eh_halves) {
    both << hnorm, enorm;
  } else {
    both << enorm, hnorm;
  }
  return linear_of(frame.layer, both, frame.layer.weights.eh_proj);
}

template Rows<float> embed_masked(const Frame<float>&);
template Rows<double> embed_masked(const Frame<double>&);
template Rows<float> hnorm(const Frame<float>&);
template Rows<double> hnorm(const Frame<double>&);
template Rows<float> eh_proj(const Frame<float>&);
template Rows<double> eh_proj(const Frame<double>&);

}  // namespace mtpcheck
