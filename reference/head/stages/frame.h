#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/head/deviations.h"
#include "reference/head/rounding_points.h"
#include "reference/head/stages/cache.h"
#include "reference/math/router.h"
#include "reference/math/rows.h"
#include "reference/model/config.h"
#include "reference/model/conventions.h"
#include "reference/model/input.h"
#include "reference/model/stages.h"
#include "reference/model/weights.h"
#include "reference/parallel/thread_pool.h"

namespace mtpcheck {

/// How the inputs of quantised projections are quantised.
enum class ActivationQuantisation : std::uint8_t {
  none,
  token_group_128,  ///< one float32 scale a token and 128 columns: FP8 block engines
  mx_32,            ///< one power-of-two scale a token and 32 columns: MXFP8
  per_token,        ///< one float32 scale a token: per-channel FP8
};

/// Everything a stage is computed with besides its input stages.
struct LayerDefinition {
  const HeadConfig& config;
  const LayerWeights& weights;
  const Matrix& embed_tokens;
  Conventions conventions;
  Deviations deviations;
  RoundingPlan rounding;
  ActivationQuantisation activations = ActivationQuantisation::none;
  ThreadPool* pool = nullptr;
  bool sums_in_order = false;  ///< one running sum an output of a projection
};

/// Key indices each packed row attends to, ascending.
using KeyChoice = std::vector<std::vector<std::int32_t>>;

/// One sequence of the batch: its rows, and what is cached of it.
template <class S>
struct SequenceRows {
  std::size_t first = 0;  ///< packed row
  std::size_t count = 0;
  std::size_t cached = 0;  ///< keys before this call's
  LatentCache<S>* cache = nullptr;

  std::size_t keys() const { return cached + count; }
};

/// The values of one forward call, filled stage by stage. Every stage is a function of the definition, the input, the
/// caches and the values of its input stages (stage_inputs.h), and of nothing else.
template <class S>
struct Frame {
  const LayerDefinition& layer;
  const HeadInput& input;
  std::vector<SequenceRows<S>> sequences;

  std::array<Rows<S>, kStages> values;  // [T, …] flattened to two dimensions
  KeyChoice topk_indices;
  ExpertChoice topk_experts;
  std::vector<Rows<S>> indexer_scores;  // per sequence [T, S]; filled on demand
  std::vector<Rows<S>> attn_probs;      // per sequence [N·T, S]; filled on demand
  Rows<S> indexer_q_scales;             // [T, h]; with indexer_fp8
  Rows<S> indexer_k_scales;             // [T, 1]; with indexer_fp8
  Rows<S> wide_residual;                // the last residual before it was rounded, where a norm reads it

  const Rows<S>& at(Stage stage) const { return values[static_cast<std::size_t>(stage)]; }
  Rows<S>& at(Stage stage) { return values[static_cast<std::size_t>(stage)]; }
  std::size_t tokens() const { return input.tokens(); }
};

/// The equations: one T×… stage from those before it, its sum not yet rounded where it is a residual. The stages with
/// state or choices of their own (the indexer's, attention's, the experts') are run_stage's.
template <class S>
Rows<S> compute(Stage stage, const Frame<S>& frame);

}  // namespace mtpcheck
