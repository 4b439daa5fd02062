#include "reference/torch/operators.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "reference/tensor/error.h"
#include "reference/torch/stored.h"

namespace mtpcheck::torch_head {
namespace {

/// θ^(−2i/r), i = 0 … r/2−1.
at::Tensor plain_frequencies(double theta, std::int64_t rope, at::ScalarType type) {
  const auto exponents = at::arange(0, rope, 2, at::TensorOptions(type)).div(static_cast<double>(rope));
  return at::pow(at::scalar_tensor(theta, at::TensorOptions(type)), exponents).reciprocal();
}

/// The dimension at which a wave makes `turns` turns within the original context (YaRN, eq. 17's solution for i).
double correction_dimension(double turns, double rope, double theta, double context) {
  return rope * std::log(context / (turns * 2 * std::numbers::pi)) / (2 * std::log(theta));
}

double magnitude(double factor, double mscale) { return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0; }

double original_context(const HeadConfig& config) {
  const double stated = config.rope.original_max_position_embeddings;
  return stated > 0 ? stated : static_cast<double>(config.max_position_embeddings);
}

at::Tensor yarn_frequencies(const HeadConfig& config, const at::Tensor& plain) {
  const auto& rope = config.rope;
  const auto dims = static_cast<double>(config.qk_rope_head_dim);
  double low = correction_dimension(rope.beta_fast, dims, rope.theta, original_context(config));
  double high = correction_dimension(rope.beta_slow, dims, rope.theta, original_context(config));
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dims - 1);
  if (low == high) high += 0.001;
  const auto ramp = at::arange(plain.numel(), plain.options()).sub(low).div(high - low).clamp(0, 1);
  return plain / rope.factor * ramp + plain * (1 - ramp);
}

at::Tensor llama3_frequencies(const HeadConfig& config, const at::Tensor& plain) {
  const auto& rope = config.rope;
  const double context = original_context(config);
  const auto wavelength = 2 * std::numbers::pi / plain;
  const auto smooth = (context / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  const auto blended = (1 - smooth) * plain / rope.factor + smooth * plain;
  const auto slow = at::where(wavelength > context / rope.low_freq_factor, plain / rope.factor, blended);
  return at::where(wavelength < context / rope.high_freq_factor, plain, slow);
}

/// `longest` positions are in use, the largest + 1.
at::Tensor frequencies(const HeadConfig& config, std::int64_t longest, at::ScalarType type) {
  const auto& rope = config.rope;
  const auto dims = static_cast<std::int64_t>(config.qk_rope_head_dim);
  if (rope.type == "ntk") {
    // A base of θ · factor, and the frequencies divided by factor^(2/r).
    const double divisor = std::pow(rope.factor, 2.0 / static_cast<double>(dims));
    return plain_frequencies(rope.theta * rope.factor, dims, type) / divisor;
  }
  if (rope.type == "dynamic") {
    const double exponent = static_cast<double>(dims) / static_cast<double>(dims - 2);
    const double context = original_context(config);
    const double stretch = std::max(1.0, static_cast<double>(longest) / context);
    const double theta = rope.theta * std::pow(rope.factor * stretch - (rope.factor - 1), exponent);
    return plain_frequencies(theta, dims, type);
  }
  auto plain = plain_frequencies(rope.theta, dims, type);
  if (rope.type == "default") return plain;
  if (rope.type == "linear") return plain / rope.factor;
  if (rope.type == "yarn" || rope.type == "deepseek_yarn") return yarn_frequencies(config, plain);
  if (rope.type == "llama3") return llama3_frequencies(config, plain);
  throw input_error(fmt::format("rope_type \"{}\" is not known to the torch head", rope.type));
}

double table_factor(const RopeParameters& rope) {
  if (rope.type != "yarn" && rope.type != "deepseek_yarn") return 1.0;
  if (rope.attention_factor > 0) return rope.attention_factor;
  if (rope.mscale != 0 && rope.mscale_all_dim != 0) {
    return magnitude(rope.factor, rope.mscale) / magnitude(rope.factor, rope.mscale_all_dim);
  }
  return magnitude(rope.factor, 1.0);
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const Vector& weight, double eps) {
  const auto type = wide(x.scalar_type());
  const auto exact = x.to(type);
  const auto mean_square = exact.square().mean(-1, /*keepdim=*/true);
  return (exact * (mean_square + eps).rsqrt() * vector_of(weight, type)).to(x.scalar_type());
}

at::Tensor layer_norm(const at::Tensor& x, const Vector& weight, const Vector& bias, double eps) {
  const auto type = wide(x.scalar_type());
  const auto exact = x.to(type);
  const auto centred = exact - exact.mean(-1, /*keepdim=*/true);
  const auto variance = centred.square().mean(-1, /*keepdim=*/true);
  const auto normed = centred * (variance + eps).rsqrt();
  return (normed * vector_of(weight, type) + vector_of(bias, type)).to(x.scalar_type());
}

Rotation rotation(const HeadConfig& config, const at::Tensor& positions, at::ScalarType wide) {
  const auto longest = positions.max().item<std::int64_t>() + 1;
  const auto angle = positions.to(wide).unsqueeze(1) * frequencies(config, longest, wide);  // [T, r/2]
  const double factor = table_factor(config.rope);
  return {angle.cos() * factor, angle.sin() * factor};
}

at::Tensor rotate(const at::Tensor& x, const Rotation& rotation, RopePairing pairing) {
  const auto half = rotation.cos.size(-1);
  const auto pass = x.size(-1) - 2 * half;
  const auto turning = x.narrow(-1, pass, 2 * half).to(rotation.cos.scalar_type());
  const bool adjacent = pairing == RopePairing::interleaved;
  const auto pairs =
      adjacent ? turning.unflatten(-1, {half, 2}) : turning.unflatten(-1, {2, half}).transpose(-1, -2);  // [.., r/2, 2]
  const auto a = pairs.select(-1, 0);
  const auto b = pairs.select(-1, 1);
  const auto cos = rotation.cos.unsqueeze(1);  // the same for every head
  const auto sin = rotation.sin.unsqueeze(1);
  const auto turned = at::stack({a * cos - b * sin, b * cos + a * sin}, adjacent ? -1 : -2).flatten(-2);
  return at::cat({x.narrow(-1, 0, pass), turned.to(x.scalar_type())}, -1);
}

double softmax_scale(const HeadConfig& config, const Conventions& conventions) {
  const auto width = static_cast<double>(config.qk_nope_head_dim + config.qk_rope_head_dim);
  const auto& rope = config.rope;
  const bool scaled = conventions.yarn_softmax_scale && rope.type != "default" && rope.mscale_all_dim != 0;
  const double mscale = scaled ? magnitude(rope.factor, rope.mscale_all_dim) : 1.0;
  return mscale * mscale / std::sqrt(width);
}

at::Tensor largest(const at::Tensor& scores, std::int64_t count) {
  const auto order = std::get<1>(at::sort(scores, /*stable=*/true, /*dim=*/-1, /*descending=*/true));
  return order.narrow(-1, 0, count);
}

Quantised quantised(const at::Tensor& x, std::int64_t group) {
  const auto grouped = x.to(wide(x.scalar_type())).unflatten(-1, {-1, group});
  const auto peak = grouped.abs().amax(-1, /*keepdim=*/true).clamp_min(1e-10);
  const auto scale = (peak / 448.0).log2().ceil().exp2();
  const auto values = (grouped / scale).clamp(-448.0, 448.0).to(at::kFloat8_e4m3fn).to(grouped.scalar_type());
  return {values.flatten(-2), scale.squeeze(-1)};
}

}  // namespace mtpcheck::torch_head
