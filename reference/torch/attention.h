#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "reference/model/config.h"
#include "reference/model/conventions.h"
#include "reference/model/input.h"
#include "reference/model/weights.h"
#include "reference/torch/recorder.h"

namespace mtpcheck::torch_head {

/// What a sequence's keys leave behind, S rows each; undefined tensors while it is empty.
struct SequenceCache {
  at::Tensor latent;        // [S, Lkv] after kv_a_layernorm
  at::Tensor k_pe;          // [S, r] after RoPE
  at::Tensor index_k;       // [S, d] the indexer's keys after RoPE, E4M3 values under indexer_fp8
  at::Tensor index_scales;  // [S, d/128] their scales; under indexer_fp8 only

  std::int64_t length() const { return latent.defined() ? latent.size(0) : 0; }
  void truncate(std::int64_t length);
};

/// Multi-head latent attention with its indexer, sinks and gate: o_proj's output [T, H] for x [T, H]. Appends the rows
/// of each sequence to its cache.
at::Tensor attention(const HeadConfig& config, const Conventions& conventions, const LayerWeights& weights,
                     const HeadInput& input, const Selections* forced, const at::Tensor& x,
                     std::vector<SequenceCache>& caches, const Recorder& record);

}  // namespace mtpcheck::torch_head
