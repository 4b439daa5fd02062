#pragma once

#include <vector>

#include "reference/model/config.h"
#include "reference/model/conventions.h"
#include "reference/model/stages.h"

namespace mtpcheck {

/// The stages that a head of this configuration computes, in order. Sparse attention adds the indexer's, experts the
/// router's, a gate its own.
std::vector<Stage> stages_of(const HeadConfig& config);

/// What a stage is a function of, besides weights, token ids, positions and hidden states. Where there are several
/// choices each is enough by itself, the narrowest first: attn_out follows from attn_probs and kv_c, or from what
/// attn_probs is made of.
///
/// attn_probs, attn_out and the indexer's scores also need kv_c, k_pe and indexer_k of the rows cached before.
std::vector<std::vector<Stage>> stage_inputs(Stage stage, const HeadConfig& config, const Conventions& conventions);

}  // namespace mtpcheck
