#pragma once

#include <string>
#include <vector>

#include "harness/loading/vllm/head/draft_head.h"

namespace mtpcheck::vllm {

/// What every module of one MTP layer is built from.
struct LayerContext {
  std::size_t layer = 0;  ///< MTP layer, from 0
  Dtype dtype = Dtype::bf16;
  std::size_t tp_size = 1;
  std::size_t tp_rank = 0;
};

/// A size of config.json that a module has, and the key it comes from.
struct Size {
  std::size_t value = 0;
  std::string key;
};

/// A projection of a linear layer: its rows of all ranks together.
struct Projection {
  std::string name;
  Size rows;
};

/// A linear layer to be built.
struct Linear {
  std::string name;    ///< of the module in the model: "model.layers.3.mtp_block.self_attn.o_proj"
  std::string module;  ///< as the quantisation knows it: "model.layers.3.self_attn.o_proj"
  Loader loader = Loader::replicated;
  bool replicated = false;  ///< disable_tp of a merged layer
  Size cols;
  std::vector<Projection> projections;  ///< one, or several that are fused
};

/// The module class that compressed-tensors compares its targets with.
std::string module_class(const Linear& linear);

/// Appends the parameters of a linear layer under `scheme`. Throws Refused where the scheme does not fit its sizes or a
/// size is not divisible among the ranks.
void add_linear(const Linear& linear, const Scheme& scheme, const LayerContext& context,
                std::vector<EngineParameter>& parameters);

/// The routed experts of one layer.
struct Experts {
  std::string name;  ///< "model.layers.3.mtp_block.mlp.experts.routed_experts"
  std::size_t count = 0;
  std::vector<std::uint32_t> local;  ///< global expert of each slot of this rank
  Size hidden;
  Size intermediate;
  std::size_t tp_size = 1;  ///< 1 under expert parallelism
  std::size_t tp_rank = 0;
};

/// Appends the parameters of the experts. Throws Refused as `add_linear`.
void add_experts(const Experts& experts, const Scheme& scheme, const LayerContext& context,
                 std::vector<EngineParameter>& parameters);

/// An embedding or a language model head, whose rows are the vocabulary padded to a multiple of 64.
struct Vocabulary {
  std::string name;
  Size rows;
  Size cols;
};
void add_vocabulary(const Vocabulary& vocabulary, const Scheme& scheme, const LayerContext& context,
                    std::vector<EngineParameter>& parameters);

/// Throws Refused, naming the key, unless the ranks can share `size` evenly.
std::size_t share(const Size& size, std::size_t ranks);

}  // namespace mtpcheck::vllm
