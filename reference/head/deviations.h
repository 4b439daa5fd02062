#pragma once

#include <cstdint>
#include <optional>

#include "reference/model/stages.h"

namespace mtpcheck {

/// Known ways of getting the head wrong, to be computed on purpose: for likely causes and for the fault catalogue.
/// Everything off is the definition. What implementations merely disagree on is in Conventions, not here.
struct Deviations {
  // Norms.
  bool norm_weight_plus_one = false;     ///< 1 + w where w was meant
  std::optional<double> norm_eps;        ///< of every RMSNorm
  bool index_norm_without_mean = false;  ///< RMSNorm for the indexer's LayerNorm
  bool index_norm_without_bias = false;
  bool index_norm_bf16 = false;  ///< the indexer's LayerNorm computed in bf16 steps

  // Input.
  bool swap_eh_halves = false;  ///< [hnorm | enorm]
  bool skip_enorm = false, skip_hnorm = false;
  bool mask_first_row_only = false;  ///< position-0 mask at row 0 of the batch only, whatever the positions
  std::int64_t position_shift = 0;   ///< added to every position

  // RoPE.
  bool rope_unscaled = false;  ///< rope_parameters read as type default
  std::optional<double> rope_theta;
  bool rope_dropped = false;     ///< every vector left as it is
  bool rope_first_dims = false;  ///< the indexer's rope on the first instead of the last dims

  // Attention.
  bool ignore_sink = false;
  bool sink_bf16 = false;
  bool ignore_gate = false;
  bool gate_without_sigmoid = false;
  bool index_without_relu = false;
  bool dense_attention = false;          ///< the indexer's choice ignored
  bool softmax_scale_nope_only = false;  ///< n^−½ instead of (n + r)^−½

  // Router and experts.
  bool ignore_expert_bias = false;
  bool expert_bias_in_weights = false;
  bool expert_bias_bf16 = false;
  bool softmax_router = false;  ///< softmax instead of sigmoid
  bool weights_not_normalised = false;
  bool weights_of_next_choice = false;  ///< each expert with its neighbour's weight
  int scaling_factor_times = 1;         ///< 0: missing, 2: applied twice
  bool scaling_factor_on_shared = false;
  bool swap_gate_up = false;
  bool interleaved_gate_up = false;  ///< rows of gate and up taken alternately
  bool transposed_gate_up = false;   ///< [gate; up] read transposed, where it is square
  bool no_clamp = false;
  bool clamp_shared = false;
  bool skip_shared = false;

  // Weights.
  bool ignore_scales = false;       ///< quantised codes taken as values
  bool transposed_weights = false;  ///< square projections read transposed

  bool operator==(const Deviations&) const = default;
};

}  // namespace mtpcheck
