#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "harness/loading/engines/row_turn.h"
#include "harness/loading/plan/coverage.h"
#include "harness/loading/plan/plan.h"
#include "reference/model/config.h"

/// What an engine holds, told in the files' vocabulary instead of its own: of each weight of a split checkpoint, which
/// box of which parameter holds it, and in which order its rows stand there. Two engines are compared weight by weight.
namespace mtpcheck {

/// What a parameter keeps of a weight.
enum class Aspect : std::uint8_t { numbers, scale, global_scale, input_scale };

/// "", " scale", " global scale", " input scale": what follows the weight's name.
std::string_view to_string(Aspect aspect);

struct WeightKey {
  std::size_t layer = 0;  ///< MTP layer, from 0
  std::string weight;     ///< "self_attn.q_a_proj", "mlp.experts.17.up_proj"
  Aspect aspect = Aspect::numbers;

  friend bool operator<(const WeightKey& a, const WeightKey& b) {
    return std::tie(a.layer, a.weight, a.aspect) < std::tie(b.layer, b.weight, b.aspect);
  }
};

/// Where an engine holds it.
struct HeldWeight {
  std::uint32_t parameter = 0;
  Box box;  ///< of the parameter
  RowTurn turn;

  Extents extents() const { return {box.experts.size(), box.rows.size(), box.cols.size()}; }
};

using HeldWeights = std::map<WeightKey, HeldWeight>;

/// Every weight that the plan's parameters hold; KV-cache scales are none. turn_of  nullptr: rows as in the files
HeldWeights held_weights(const LoadPlan& plan, const HeadConfig& config, RowTurnOf turn_of);

/// A part of a weight that one write gave.
struct HeldSlice {
  Box box;                             ///< of the weight: its own rows and columns, from 0, in the files' order
  const Write* write = nullptr;        ///< it is the plan's
  std::array<std::size_t, 3> begin{};  ///< box's first expert, row and column within the write's box

  /// The write as if it gave `part` of the weight and nothing else; `part` lies in `box`. Its box begins at 0.
  Write cut(const Box& part) const;
};

/// What was written of a weight, by which writes; disjoint.
std::vector<HeldSlice> slices_of(const HeldWeight& held, const LoadPlan& plan, const Coverage& coverage);

}  // namespace mtpcheck
