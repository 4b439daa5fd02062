#include "reference/math/quantise.h"

#include <algorithm>
#include <cmath>

#include "reference/tensor/float_formats.h"

namespace mtpcheck {
namespace {

float scale_for(float largest, ScaleFormat format) {
  const float raw = std::max(largest, 1e-10F) * (1.0F / 448.0F);
  if (format == ScaleFormat::float32 || !std::isfinite(raw)) return raw;
  int exponent = 0;
  const float mantissa = std::frexp(raw, &exponent);
  return std::ldexp(1.0F, mantissa == 0.5F ? exponent - 1 : exponent);
}

}  // namespace

template <class S>
Quantised<S> quantise(const Rows<S>& x, std::size_t group, ScaleFormat format) {
  const auto columns = static_cast<std::size_t>(x.cols());
  const std::size_t groups = (columns + group - 1) / group;
  Quantised<S> out{Rows<S>(x.rows(), x.cols()), Rows<S>(x.rows(), static_cast<Eigen::Index>(groups))};
  for (Eigen::Index t = 0; t < x.rows(); ++t) {
    for (std::size_t g = 0; g < groups; ++g) {
      const std::size_t end = std::min(columns, (g + 1) * group);
      float largest = 0;
      for (std::size_t c = g * group; c < end; ++c) {
        const float magnitude = std::fabs(static_cast<float>(x(t, c)));
        if (!(magnitude <= largest)) largest = magnitude;  // NaN is carried on
      }
      const float scale = scale_for(largest, format);
      out.scales(t, g) = static_cast<S>(scale);
      for (std::size_t c = g * group; c < end; ++c) {
        out.codes(t, c) = static_cast<S>(e4m3_to_f32(f32_to_e4m3(static_cast<float>(x(t, c)) / scale)));
      }
    }
  }
  return out;
}

template <class S>
Rows<S> dequantised(const Quantised<S>& x, std::size_t group) {
  Rows<S> out = x.codes;
  for (Eigen::Index t = 0; t < out.rows(); ++t) {
    for (Eigen::Index c = 0; c < out.cols(); ++c) out(t, c) *= x.scales(t, c / static_cast<Eigen::Index>(group));
  }
  return out;
}

template Quantised<float> quantise(const Rows<float>&, std::size_t, ScaleFormat);
template Quantised<double> quantise(const Rows<double>&, std::size_t, ScaleFormat);
template Rows<float> dequantised(const Quantised<float>&, std::size_t);
template Rows<double> dequantised(const Quantised<double>&, std::size_t);

}  // namespace mtpcheck
