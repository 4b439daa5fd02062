#include "reference/head/stages/projection.h"

#include "reference/linear/linear.h"
#include "reference/math/quantise.h"

namespace mtpcheck {
namespace {

template <class S>
Rows<S> quantised_input(ActivationQuantisation how, const Rows<S>& x) {
  const auto columns = static_cast<std::size_t>(x.cols());
  switch (how) {
    case ActivationQuantisation::none:
      return x;
    case ActivationQuantisation::token_group_128:
      return dequantised(quantise(x, 128, ScaleFormat::float32), 128);
    case ActivationQuantisation::mx_32:
      return dequantised(quantise(x, 32, ScaleFormat::power_of_two), 32);
    case ActivationQuantisation::per_token:
      return dequantised(quantise(x, columns, ScaleFormat::float32), columns);
  }
  return x;
}

template <class S>
Rows<S> multiplied(const LayerDefinition& layer, const Rows<S>& x, const Matrix& w) {
  return layer.sums_in_order ? linear_in_order(x, w, *layer.pool) : linear(x, w, *layer.pool);
}

}  // namespace

Matrix as_read(const LayerDefinition& layer, const Matrix& w) {
  Matrix out = w;
  if (layer.deviations.ignore_scales) out.scales = {};
  return out;
}

template <class S>
Rows<S> project(const LayerDefinition& layer, const Rows<S>& x, const Matrix& w) {
  const Matrix read = as_read(layer, w);
  if (layer.deviations.transposed_weights && w.rows == w.cols) {
    return x * decode_all<S>(read);
  }
  if (layer.activations == ActivationQuantisation::none || !is_fp8(w.dtype)) return multiplied(layer, x, read);
  return multiplied(layer, quantised_input(layer.activations, x), read);
}

template <class S>
Rows<S> linear_of(const LayerDefinition& layer, const Rows<S>& x, const Matrix& w) {
  Rows<S> y = project(layer, x, w);
  round_all(layer.rounding.format_at(RoundingPoint::linear_output), y);
  return y;
}

template <class S>
Rows<S> norm_of(const LayerDefinition& layer, const Rows<S>& x, const Vector& weight, double eps) {
  const double used_eps = layer.deviations.norm_eps.value_or(eps);
  if (!layer.deviations.norm_weight_plus_one) return rms_norm(x, weight, used_eps, layer.rounding.norm());
  Vector plus_one = weight;
  for (auto& w : plus_one) w += 1;
  return rms_norm(x, plus_one, used_eps, layer.rounding.norm());
}

template <class S>
Rows<S> columns_of_groups(const Rows<S>& x, std::size_t groups, std::size_t size, std::size_t first,
                          std::size_t width) {
  Rows<S> out(x.rows(), static_cast<Eigen::Index>(groups * width));
  for (std::size_t g = 0; g < groups; ++g) {
    out.middleCols(g * width, width) = x.middleCols(g * size + first, width);
  }
  return out;
}

template Rows<float> project(const LayerDefinition&, const Rows<float>&, const Matrix&);
template Rows<double> project(const LayerDefinition&, const Rows<double>&, const Matrix&);
template Rows<float> linear_of(const LayerDefinition&, const Rows<float>&, const Matrix&);
template Rows<double> linear_of(const LayerDefinition&, const Rows<double>&, const Matrix&);
template Rows<float> norm_of(const LayerDefinition&, const Rows<float>&, const Vector&, double);
template Rows<double> norm_of(const LayerDefinition&, const Rows<double>&, const Vector&, double);
template Rows<float> columns_of_groups(const Rows<float>&, std::size_t, std::size_t, std::size_t, std::size_t);
template Rows<double> columns_of_groups(const Rows<double>&, std::size_t, std::size_t, std::size_t, std::size_t);

}  // namespace mtpcheck
