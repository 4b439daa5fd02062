#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/loading/plan/box.h"
#include "reference/tensor/dtype.h"
#include "reference/tensor/tensor.h"

namespace mtpcheck {

/// What a parameter holds before the load, and so keeps where nothing is written.
enum class Initial : std::uint8_t {
  uninitialised,
  zero,
  one,
  minus_one,       ///< the placeholder of KV-cache scales
  minus_infinity,  ///< an attention sink that takes no probability
  float_min,       ///< finfo(float32).min, 0xFF7FFFFF
  random,          ///< a plain linear layer's own initialisation
};

/// "uninitialized", "one", "fp32_min", …: the words of the recorded cases.
std::string_view to_string(Initial initial);

/// What a parameter is for, which decides what may be said of it.
enum class Role : std::uint8_t {
  weight,        ///< a matrix, quantised or not
  norm,          ///< weight of an RMSNorm or LayerNorm
  bias,          ///< of a LayerNorm, or the router's correction bias
  sink,          ///< one learned logit a head
  scale,         ///< belongs to a quantised weight: block, group, channel or tensor
  global_scale,  ///< the second level of NVFP4
  input_scale,   ///< of activations, per tensor
  kv_scale,      ///< KV-cache scale: its −1 is replaced by a default after the load, by the parameter's kind
};

/// Where a parameter's numbers come from.
enum class Origin : std::uint8_t {
  checkpoint,  ///< a load writes them
  target,      ///< the target model's own parameter takes its place; the load leaves it alone on purpose
  engine,      ///< the engine computes them from others after the load
};

/// How a rank's share is cut out of the whole.
enum class Sharding : std::uint8_t {
  replicated,
  rows,      ///< each rank holds a range of the rows (of each part, where parts are fused)
  cols,      ///< each rank holds a range of the columns
  experts,   ///< each rank holds whole experts
  embedding  ///< rows of the vocabulary, padded
};

/// One checkpoint projection inside a fused parameter.
struct Part {
  std::string name;  ///< "gate_proj", "kv_a_proj_with_mqa"
  Interval rows;     ///< of the parameter, on this rank
};

/// A parameter of the engine's draft head, on one rank, as it is after construction.
struct Parameter {
  std::string name;  ///< the engine's, e.g. "model.layers.78.mtp_block.self_attn.o_proj.weight"
  Dtype dtype = Dtype::bf16;
  Shape shape;
  Extents extents;
  Initial initial = Initial::uninitialised;
  Role role = Role::weight;
  Origin origin = Origin::checkpoint;
  Sharding sharding = Sharding::replicated;
  std::size_t layer = 0;  ///< MTP layer, from 0; shared parameters (the embedding) have layer 0

  /// The projections that are fused in it, in row order; empty where it is one.
  std::vector<Part> parts;

  /// The parameter that this one scales (`…weight` of a `…weight_scale_inv`); empty unless role is a scale. One cell
  /// covers block_rows × block_cols elements of it.
  std::string scales;
  std::size_t block_rows = 1;
  std::size_t block_cols = 1;

  /// It holds one number for each part of that parameter, whatever the parts' heights; block_rows does not apply.
  bool scale_a_part = false;

  /// Global expert of each local slot; empty where there is no expert axis.
  std::vector<std::uint32_t> experts;

  std::size_t elements() const { return extents.elements(); }
};

}  // namespace mtpcheck
