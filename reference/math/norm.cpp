#include "reference/math/norm.h"

#include <cmath>

#include "reference/math/sums.h"

namespace mtpcheck {

template <class S>
Rows<S> rms_norm(const Rows<S>& x, const Vector& weight, double eps, NormRounding rounding) {
  const auto columns = static_cast<std::size_t>(x.cols());
  Rows<S> y(x.rows(), x.cols());
  for (Eigen::Index t = 0; t < x.rows(); ++t) {
    const S* const in = x.data() + t * x.cols();
    S* const out = y.data() + t * x.cols();
    const S mean_square =
        ordered_sum<S>(columns, [in](std::size_t i) { return in[i] * in[i]; }) / static_cast<S>(columns);
    const S rms = std::sqrt(mean_square + static_cast<S>(eps));
    for (std::size_t i = 0; i < columns; ++i) {
      const S normalised =
          rounding.order == NormOrder::cast_then_weight ? round_to(rounding.format, in[i] / rms) : in[i] / rms;
      out[i] = round_to(rounding.format, normalised * static_cast<S>(weight[i]));
    }
  }
  return y;
}

template <class S>
Rows<S> layer_norm(const Rows<S>& x, const Vector& weight, const Vector& bias, double eps, Format format) {
  const auto columns = static_cast<std::size_t>(x.cols());
  Rows<S> y(x.rows(), x.cols());
  for (Eigen::Index t = 0; t < x.rows(); ++t) {
    const S* const in = x.data() + t * x.cols();
    S* const out = y.data() + t * x.cols();
    const S mean = ordered_sum<S>(columns, [in](std::size_t i) { return in[i]; }) / static_cast<S>(columns);
    const S variance = ordered_sum<S>(columns, [in, mean](std::size_t i) { return (in[i] - mean) * (in[i] - mean); }) /
                       static_cast<S>(columns);
    const S deviation = std::sqrt(variance + static_cast<S>(eps));
    for (std::size_t i = 0; i < columns; ++i) {
      const S b = bias.empty() ? S{0} : static_cast<S>(bias[i]);
      out[i] = round_to(format, (in[i] - mean) / deviation * static_cast<S>(weight[i]) + b);
    }
  }
  return y;
}

template Rows<float> rms_norm(const Rows<float>&, const Vector&, double, NormRounding);
template Rows<double> rms_norm(const Rows<double>&, const Vector&, double, NormRounding);
template Rows<float> layer_norm(const Rows<float>&, const Vector&, const Vector&, double, Format);
template Rows<double> layer_norm(const Rows<double>&, const Vector&, const Vector&, double, Format);

}  // namespace mtpcheck
