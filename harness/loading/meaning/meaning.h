#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "harness/checkpoint/header_set.h"
#include "harness/loading/meaning/scale_grid.h"
#include "reference/model/config.h"
#include "reference/model/weights.h"

namespace mtpcheck {

/// The weights *as meant*: what the files say, by names, dtypes and shapes alone, whatever an engine's loader makes of
/// them. Headers are enough; nothing here reads data.

/// What is wrong with the files themselves, as one value a defect.
struct MeaningProblem {
  enum class Id : std::uint8_t {
    no_mtp_weights,       ///< no tensor belongs to any MTP layer
    layer_not_filled,     ///< none belongs to one that is declared
    extra_layer,          ///< more layers than declared
    missing,              ///< no tensor gives a weight
    ambiguous,            ///< several do, under different names or in different layouts
    shape_mismatch,       ///< a tensor's shape is not the weight's
    expert_count,         ///< a packed tensor with too many or too few experts, or an expert beyond the last
    dtype_contradiction,  ///< a dtype that no weight of this kind has
    scale_missing,        ///< a quantised tensor without its scale
    orphan_scale,         ///< a scale without a quantised tensor
    scale_conflict,       ///< two scales for one tensor
    scale_format,         ///< a scale whose shape or dtype fits no known layout
    unknown_tensor,       ///< of an MTP layer, but nothing that a head has
  };
  Id id = Id::missing;
  std::size_t layer = 0;               ///< MTP layer, from 0
  std::string weight;                  ///< "self_attn.q_a_proj", "mlp.experts.17.up_proj"; empty where none is meant
  std::vector<std::uint32_t> tensors;  ///< headers concerned
  std::string found;
  std::string expected;
  bool blocks = true;  ///< the weights as meant are not known: no head can run on them
};

/// "missing", "scale-conflict", …: the ids of audit findings where there is one of that name.
std::string_view to_string(MeaningProblem::Id id);

inline constexpr std::uint32_t kNoTensor = std::numeric_limits<std::uint32_t>::max();

/// One logical weight of a layer and where its elements lie.
struct MeantWeight {
  std::size_t layer = 0;
  std::string name;  ///< as in a split checkpoint, without ".weight": "self_attn.q_a_proj", "mlp.experts.17.up_proj"
  std::size_t rows = 0;
  std::size_t cols = 1;  ///< 1 for vectors
  std::uint32_t tensor = kNoTensor;
  std::size_t first_element = 0;  ///< of the tensor; rows · cols elements follow each other
  QuantLayout layout = QuantLayout::none;
  std::uint32_t scale = kNoTensor;
  ScaleGrid grid;

  Matrix* (*matrix)(LayerWeights&, std::size_t expert) = nullptr;  ///< its place in a head, or
  Vector* (*vector)(LayerWeights&) = nullptr;                      ///< this one
  std::size_t expert = 0;
};

/// What a tensor is, in the files' own terms.
enum class TensorUse : std::uint8_t {
  unrelated,     ///< the backbone's
  not_listed,    ///< in a file that the index does not list
  weight,        ///< gives a logical weight
  scale,         ///< of a weight, needed or not
  input_scale,   ///< static scale of activations
  kv_scale,      ///< of the KV cache
  skipped_copy,  ///< a layer's own copy of embedding or head
  unknown,       ///< see the problems
};

struct Meaning {
  std::size_t layers = 1;            ///< MTP layers, at least 1
  std::vector<MeantWeight> weights;  ///< layer by layer; without those that are missing
  MeantWeight embed_tokens;          ///< tensor == kNoTensor where it is missing
  std::vector<TensorUse> uses;       ///< parallel to the headers
  std::vector<MeaningProblem> problems;
};

/// Resolves every logical weight of the head. `config_json` gives hints only (the block size of a quantisation); the
/// tensors decide.
Meaning meaning_of(const HeadConfig& config, const nlohmann::json& config_json, const HeaderSet& headers);

/// One line for a person: what is wrong, where, and the tensors.
std::string describe(const MeaningProblem& problem, const HeaderSet& headers);

/// The weights that the files mean, without a copy: matrices point into the tensors' bytes, which `storage` keeps
/// alive. Throws Error{input} for the first problem that blocks, for NVFP4 and MXFP4, which heads do not run on, and
/// for views without bytes.
HeadWeights weights_as_meant(const Meaning& meaning, const HeadConfig& config, const HeaderSet& headers,
                             std::shared_ptr<const void> storage);

}  // namespace mtpcheck
