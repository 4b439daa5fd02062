#pragma once

#include <string>
#include <vector>

#include "harness/loading/plan/box.h"
#include "harness/loading/plan/parameter.h"

namespace mtpcheck {

/// A part of a parameter that one weight of the files fills: a projection of a fused one, an expert's half, or all.
struct Piece {
  Box box;             ///< of the parameter
  std::string weight;  ///< as a split checkpoint names it, without ".weight": "mlp.experts.17.up_proj"
};

/// The pieces of a parameter, expert by expert and part by part.
std::vector<Piece> pieces_of(const Parameter& parameter);

/// "mlp.experts.17.up_proj" → the same; "enorm.weight" → "enorm"; "mlp.expert_bias" →
/// "mlp.gate.e_score_correction_bias". One spelling for the names that meaning and parameters use.
std::string weight_key(const std::string& name);

/// A box in words: "expert 17, up half (w3)", "experts 3 to 7", "kv_a_proj_with_mqa, rows 8 to 15", "all".
std::string in_words(const Parameter& parameter, const Box& box);

/// Several boxes: joined with "; ", after `limit` of them "and N more".
std::string in_words(const Parameter& parameter, const std::vector<Box>& boxes, std::size_t limit = 6);

}  // namespace mtpcheck
