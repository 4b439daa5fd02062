#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "reference/model/config.h"
#include "reference/model/weights.h"

namespace mtpcheck {

/// A name under which a checkpoint may hold a logical weight, and which part of that tensor it is.
struct WeightSource {
  std::string tensor;   ///< within the layer: "self_attn.q_a_proj.weight"; whole names for shared tensors
  std::string stem;     ///< its scale is the stem and a suffix
  bool shared = false;  ///< `tensor` is a whole name: the embedding and the head belong to no layer

  std::optional<std::size_t> expert;   ///< slab of a tensor that packs all experts
  std::vector<std::size_t> part_rows;  ///< rows of the projections fused in it; empty: it is the weight alone
  std::size_t part = 0;
};

/// One weight of the head, as the config calls for it.
struct LogicalWeight {
  std::string name;  ///< "self_attn.q_a_proj", "mlp.experts.17.up_proj"
  std::size_t rows = 0;
  std::size_t cols = 0;                 ///< 0: a vector of `rows` elements
  std::vector<WeightSource> sources;    ///< equals: more than one at a time is a contradiction
  std::vector<WeightSource> fallbacks;  ///< in this order, where no source is there

  Matrix* (*matrix)(LayerWeights&, std::size_t expert) = nullptr;
  Vector* (*vector)(LayerWeights&) = nullptr;
  std::size_t expert = 0;
};

/// All weights of one MTP layer; the head comes last.
std::vector<LogicalWeight> logical_weights(const HeadConfig& config);

/// The embedding, which all layers share.
LogicalWeight logical_embedding(const HeadConfig& config);

/// A layer with the parts that the config calls for, all empty.
LayerWeights empty_layer(const HeadConfig& config);

}  // namespace mtpcheck
