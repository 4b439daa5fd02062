#include "reference/math/rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

template <class S>
std::vector<S> plain(S theta, std::size_t rope) {
  std::vector<S> inverse(rope / 2);
  for (std::size_t i = 0; i < inverse.size(); ++i) {
    inverse[i] = S{1} / std::pow(theta, static_cast<S>(2 * i) / static_cast<S>(rope));
  }
  return inverse;
}

/// The (fractional) dimension whose wavelength makes `rotations` turns within the original context.
double yarn_dimension(double rotations, double rope, double theta, double original) {
  return rope * std::log(original / (rotations * 2 * std::numbers::pi)) / (2 * std::log(theta));
}

template <class S>
std::vector<S> yarn(const RopeParameters& p, std::size_t rope, double original) {
  const auto dims = static_cast<double>(rope);
  double low = yarn_dimension(p.beta_fast, dims, p.theta, original);
  double high = yarn_dimension(p.beta_slow, dims, p.theta, original);
  if (p.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dims - 1);
  if (low == high) high += 0.001;
  std::vector<S> inverse(rope / 2);
  for (std::size_t i = 0; i < inverse.size(); ++i) {
    const S wavelength = std::pow(static_cast<S>(p.theta), static_cast<S>(2 * i) / static_cast<S>(rope));
    const S extrapolated = S{1} / wavelength;
    const S interpolated = S{1} / (static_cast<S>(p.factor) * wavelength);
    const S ramp = std::clamp((static_cast<S>(i) - static_cast<S>(low)) / static_cast<S>(high - low), S{0}, S{1});
    inverse[i] = interpolated * ramp + extrapolated * (S{1} - ramp);
  }
  return inverse;
}

template <class S>
std::vector<S> llama3(const RopeParameters& p, std::size_t rope, double original) {
  auto inverse = plain(static_cast<S>(p.theta), rope);
  const auto factor = static_cast<S>(p.factor);
  const S longest = static_cast<S>(original / p.low_freq_factor);
  const S shortest = static_cast<S>(original / p.high_freq_factor);
  for (S& frequency : inverse) {
    const S wavelength = static_cast<S>(2 * std::numbers::pi) / frequency;
    if (wavelength > longest) {
      frequency /= factor;
    } else if (wavelength >= shortest) {
      const S smooth = (static_cast<S>(original) / wavelength - static_cast<S>(p.low_freq_factor)) /
                       static_cast<S>(p.high_freq_factor - p.low_freq_factor);
      frequency = (S{1} - smooth) * frequency / factor + smooth * frequency;
    }
  }
  return inverse;
}

double original_context(const RopeParameters& p, std::size_t max_positions) {
  const double original =
      p.original_max_position_embeddings > 0 ? p.original_max_position_embeddings : static_cast<double>(max_positions);
  if (original <= 0) {
    throw input_error(fmt::format(
        "rope_parameters of type {} need original_max_position_embeddings or max_position_embeddings", p.type));
  }
  return original;
}

/// θ scaled so that the slowest pair is interpolated by `factor` and the fastest not at all.
double ntk_theta(const RopeParameters& p, std::size_t rope, double factor) {
  const auto dims = static_cast<double>(rope);
  return rope > 2 ? p.theta * std::pow(factor, dims / (dims - 2)) : p.theta;
}

}  // namespace

double yarn_magnitude(double scale, double mscale) { return scale <= 1 ? 1.0 : 0.1 * mscale * std::log(scale) + 1.0; }

double yarn_softmax_factor(const RopeParameters& p) {
  if (p.type == "default" || p.mscale_all_dim == 0) return 1.0;
  const double magnitude = yarn_magnitude(p.factor, p.mscale_all_dim);
  return magnitude * magnitude;
}

template <class S>
RopeFrequencies<S> rope_frequencies(const RopeParameters& p, std::size_t rope, std::size_t max_positions,
                                    std::size_t longest) {
  RopeFrequencies<S> out;
  if (p.type == "default") {
    out.inverse = plain(static_cast<S>(p.theta), rope);
  } else if (p.type == "linear") {
    out.inverse = plain(static_cast<S>(p.theta), rope);
    for (S& frequency : out.inverse) frequency /= static_cast<S>(p.factor);
  } else if (p.type == "ntk") {
    out.inverse = plain(static_cast<S>(p.theta * p.factor), rope);
    for (S& frequency : out.inverse) {
      frequency /= static_cast<S>(std::pow(p.factor, 2.0 / static_cast<double>(rope)));
    }
  } else if (p.type == "dynamic") {
    const double trained = original_context(p, max_positions);
    const double length = std::max(trained, static_cast<double>(longest));
    out.inverse = plain(static_cast<S>(ntk_theta(p, rope, p.factor * length / trained - (p.factor - 1))), rope);
  } else if (p.type == "yarn" || p.type == "deepseek_yarn") {
    out.inverse = yarn<S>(p, rope, original_context(p, max_positions));
    double magnitude = p.attention_factor;
    if (magnitude == 0) {
      magnitude = p.mscale != 0 && p.mscale_all_dim != 0
                      ? yarn_magnitude(p.factor, p.mscale) / yarn_magnitude(p.factor, p.mscale_all_dim)
                      : yarn_magnitude(p.factor, 1);
    }
    out.attention_factor = static_cast<S>(magnitude);
  } else if (p.type == "llama3") {
    out.inverse = llama3<S>(p, rope, original_context(p, max_positions));
  } else {
    throw input_error(fmt::format(
        "rope_parameters has the type \"{}\"; known are default, linear, ntk, dynamic, yarn, deepseek_yarn, llama3",
        p.type));
  }
  return out;
}

template <class S>
Rotation<S> rotation(std::span<const std::int64_t> positions, const RopeFrequencies<S>& frequencies, Format format) {
  const auto rows = static_cast<Eigen::Index>(positions.size());
  const auto pairs = static_cast<Eigen::Index>(frequencies.inverse.size());
  Rotation<S> out{Rows<S>(rows, pairs), Rows<S>(rows, pairs)};
  for (Eigen::Index t = 0; t < rows; ++t) {
    for (Eigen::Index i = 0; i < pairs; ++i) {
      const S angle = static_cast<S>(positions[t]) * frequencies.inverse[i];
      out.cos(t, i) = round_to(format, std::cos(angle) * frequencies.attention_factor);
      out.sin(t, i) = round_to(format, std::sin(angle) * frequencies.attention_factor);
    }
  }
  return out;
}

template <class S>
Rows<S> rotate(const Rows<S>& x, std::size_t groups, const Rotation<S>& by, RopePairing pairing) {
  const Eigen::Index pairs = by.cos.cols();
  const Eigen::Index rope = 2 * pairs;
  const bool interleaved = pairing == RopePairing::interleaved;
  const Eigen::Index step = interleaved ? 2 : 1;
  const Eigen::Index partner = interleaved ? 1 : pairs;
  Rows<S> y(x.rows(), x.cols());
  for (Eigen::Index t = 0; t < x.rows(); ++t) {
    for (Eigen::Index g = 0; g < static_cast<Eigen::Index>(groups); ++g) {
      for (Eigen::Index i = 0; i < pairs; ++i) {
        const Eigen::Index at = g * rope + i * step;
        const S a = x(t, at);
        const S b = x(t, at + partner);
        y(t, at) = a * by.cos(t, i) - b * by.sin(t, i);
        y(t, at + partner) = b * by.cos(t, i) + a * by.sin(t, i);
      }
    }
  }
  return y;
}

template RopeFrequencies<float> rope_frequencies(const RopeParameters&, std::size_t, std::size_t, std::size_t);
template RopeFrequencies<double> rope_frequencies(const RopeParameters&, std::size_t, std::size_t, std::size_t);
template Rotation<float> rotation(std::span<const std::int64_t>, const RopeFrequencies<float>&, Format);
template Rotation<double> rotation(std::span<const std::int64_t>, const RopeFrequencies<double>&, Format);
template Rows<float> rotate(const Rows<float>&, std::size_t, const Rotation<float>&, RopePairing);
template Rows<double> rotate(const Rows<double>&, std::size_t, const Rotation<double>&, RopePairing);

}  // namespace mtpcheck
