#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/loading/engines/numbers.h"

namespace mtpcheck {

/// Parameters of several engines that hold the same weights. An engine that fuses what another keeps apart makes one
/// row of them all.
struct PairedParameters {
  std::string name;  ///< "self_attn.{q_a_proj, kv_a_proj_with_mqa}", "mlp.experts.*.down_proj scale"
  std::size_t layer = 0;
  Aspect aspect = Aspect::numbers;
  bool kv_scale = false;                               ///< of the KV cache: no part of the head's weights
  std::vector<WeightKey> weights;                      ///< in order; none for KV-cache scales
  std::vector<std::vector<std::uint32_t>> parameters;  ///< of each engine, indices into its plan
};

/// Every parameter of every engine, each in one row: first those of the first engine in its order, then what others
/// have beyond it. Names have the layer before them where there are several.
std::vector<PairedParameters> paired_parameters(std::span<const EngineSide> engines);

/// The weights' names in one: what they have in common, then in braces what they have not; an expert's number is a
/// star.
std::string common_name(const std::vector<std::string>& weights);

}  // namespace mtpcheck
