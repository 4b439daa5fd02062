#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "reference/model/config.h"
#include "reference/model/conventions.h"
#include "reference/model/weights.h"

/// The equations that every part of the layer uses. Arithmetic is in the wide type; results have the type of `x`.
namespace mtpcheck::torch_head {

/// x / √(mean(x²) + eps) · weight over the last dimension.
at::Tensor rms_norm(const at::Tensor& x, const Vector& weight, double eps);

/// (x − mean) / √(var + eps) · weight + bias over the last dimension, with the biased variance.
at::Tensor layer_norm(const at::Tensor& x, const Vector& weight, const Vector& bias, double eps);

/// cos and sin of position · frequency, each [T, r/2] in the wide type of the head.
struct Rotation {
  at::Tensor cos, sin;
};

/// The tables of `rope_parameters` for these positions; frequencies and angles are computed in `wide`, as engines do
/// (float32) or as the truth does (float64). A type that scales attention multiplies both tables by its factor.
/// Throws Error{input} for a type that is not known.
///
/// Sources: Su et al. 2021 (default); Peng et al. 2023, YaRN, sections 3.2 to 3.4; the Llama 3.1 release (llama3).
Rotation rotation(const HeadConfig& config, const at::Tensor& positions, at::ScalarType wide);

/// Rotates the last r entries of x [T, heads, d]; the others pass.
at::Tensor rotate(const at::Tensor& x, const Rotation& rotation, RopePairing pairing);

/// Factor of the softmax: (n + r)^−½, times YaRN's squared magnitude where that is the convention.
double softmax_scale(const HeadConfig& config, const Conventions& conventions);

/// The `count` largest of each row, best first; among equals the lowest index. [..., count] int64
at::Tensor largest(const at::Tensor& scores, std::int64_t count);

/// E4M3 values and their power-of-two scales, one a group of the last dimension.
struct Quantised {
  at::Tensor values;  // [..., d] in the wide type, each an E4M3 number
  at::Tensor scales;  // [..., d / group]
};

/// Scale 2^⌈log2(max|x| / 448)⌉ a group of `group` entries, as vLLM's indexer quantises its query and key.
Quantised quantised(const at::Tensor& x, std::int64_t group);

}  // namespace mtpcheck::torch_head
