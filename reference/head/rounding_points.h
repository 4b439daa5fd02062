#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "reference/head/precision.h"
#include "reference/math/attention.h"
#include "reference/math/norm.h"
#include "reference/math/rounding.h"
#include "reference/model/stages.h"

namespace mtpcheck {

/// Where a rounded run rounds: every place at which some engine stores a tensor in its own precision.
enum class RoundingPoint : std::uint8_t {
  input,
  linear_output,
  norm_output,
  residual,
  rope_table,
  rope_output,
  index_key_norm,
  index_weights,
  absorbed_query,
  absorbed_output,
  expanded_keys,
  attention_logits,
  probabilities,
  exponentials,
  attention_output,
  gate_sigmoid,
  gated,
  silu,
  mlp_product,
  expert_down,
  expert_weighted,
  expert_sum,
  mlp_sum,
};

inline constexpr std::size_t kRoundingPoints = 23;

struct RoundingPointInfo {
  RoundingPoint point;
  std::string_view name;
  std::string_view what;
  bool vllm, transformers, sglang;
};

/// The table of rounding points, one row a point.
std::span<const RoundingPointInfo> all_rounding_points();

/// Which of the two equal forms of latent attention is computed. They differ only in what is rounded on the way.
enum class AttentionForm : std::uint8_t {
  absorbed,  ///< the query is taken into the latent space, the output out of it: MLA decode, sparse MLA
  expanded,  ///< keys and values of each head are computed from the latents: eager attention
};

/// How a run rounds.
struct RoundingPlan {
  Format format = Format::exact;
  std::bitset<kRoundingPoints> points;
  NormOrder norm_order = NormOrder::cast_then_weight;
  bool norm_reads_wide_residual = false;  ///< fused add + norm: the norm sees the sum before it is stored
  AttentionForm attention = AttentionForm::absorbed;

  bool at(RoundingPoint point) const { return points.test(static_cast<std::size_t>(point)); }
  Format format_at(RoundingPoint point) const { return at(point) ? format : Format::exact; }
  NormRounding norm() const { return {format_at(RoundingPoint::norm_output), norm_order}; }
  AttentionRounding attention_rounding() const;
};

/// The plan of an engine: `preset` is vllm, transformers or sglang. For f64 and f32 nothing is rounded, and only the
/// form of attention is the preset's. Throws Error{usage} that lists the names for another one.
RoundingPlan rounding_plan(Precision precision, std::string_view preset = "vllm");

/// The point at which a stage's recorded tensor is rounded; nullopt for what engines keep in float32 (router, expert
/// weights, index scores, logits) and for selections.
std::optional<RoundingPoint> rounding_point_of(Stage stage);

}  // namespace mtpcheck
