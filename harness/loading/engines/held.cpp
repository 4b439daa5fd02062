#include "harness/loading/engines/held.h"

#include "harness/loading/audit/words/pieces.h"

namespace mtpcheck {
namespace {

Aspect aspect_of(Role role) {
  switch (role) {
    case Role::scale:
      return Aspect::scale;
    case Role::global_scale:
      return Aspect::global_scale;
    case Role::input_scale:
      return Aspect::input_scale;
    default:
      return Aspect::numbers;
  }
}

/// Rows that follow each other in the weight and in the parameter.
struct RowRun {
  Interval weight;       ///< rows of the weight
  std::size_t held = 0;  ///< where the first of them stands among the rows that hold it
};

/// Where the rows of a weight stand, turned or not. What the turn's groups do not divide stands as in the files.
std::vector<RowRun> row_runs(std::size_t rows, const RowTurn& turn) {
  if (!turn.turns() || rows % turn.group != 0) return {{{0, rows}, 0}};
  const std::size_t shift = turn.shift % turn.group;
  std::vector<RowRun> runs;
  for (std::size_t first = 0; first < rows; first += turn.group) {
    runs.push_back({{first + shift, first + turn.group}, first});
    runs.push_back({{first, first + shift}, first + turn.group - shift});
  }
  return runs;
}

Interval moved(Interval interval, std::size_t from, std::size_t to) {
  return {interval.begin - from + to, interval.end - from + to};
}

}  // namespace

std::string_view to_string(Aspect aspect) {
  constexpr std::array<std::string_view, 4> kWords{"", " scale", " global scale", " input scale"};
  return kWords[static_cast<std::size_t>(aspect)];
}

HeldWeights held_weights(const LoadPlan& plan, const HeadConfig& config, RowTurnOf turn_of) {
  HeldWeights held;
  for (std::uint32_t index = 0; index < plan.parameters.size(); ++index) {
    const Parameter& parameter = plan.parameters[index];
    if (parameter.role == Role::kv_scale) continue;
    const Aspect aspect = aspect_of(parameter.role);
    for (const Piece& piece : pieces_of(parameter)) {
      std::string weight = weight_key(piece.weight);
      const RowTurn turn = turn_of == nullptr ? RowTurn{} : turn_of(weight, config);
      const HeldWeight place{index, piece.box, turn};
      const bool fresh = held.emplace(WeightKey{parameter.layer, std::move(weight), aspect}, place).second;
      // A second parameter for the same thing is nobody's counterpart.
      if (!fresh) held.emplace(WeightKey{parameter.layer, parameter.name, aspect}, place);
    }
  }
  return held;
}

Write HeldSlice::cut(const Box& part) const {
  Write result = *write;
  result.box = whole({part.experts.size(), part.rows.size(), part.cols.size()});
  result.axes[0].start += begin[0] + part.experts.begin - box.experts.begin;
  result.axes[1].start += begin[1] + part.rows.begin - box.rows.begin;
  result.axes[2].start += begin[2] + part.cols.begin - box.cols.begin;
  return result;
}

std::vector<HeldSlice> slices_of(const HeldWeight& held, const LoadPlan& plan, const Coverage& coverage) {
  std::vector<HeldSlice> slices;
  const auto runs = row_runs(held.box.rows.size(), held.turn);
  for (const VisibleSlice& visible : coverage.visible) {
    const Box inside = intersection(visible.box, held.box);
    if (inside.empty()) continue;
    const Write& write = plan.writes[visible.write];
    for (const RowRun& run : runs) {
      const std::size_t first = held.box.rows.begin + run.held;
      Box part = inside;
      part.rows = intersection(inside.rows, {first, first + run.weight.size()});
      if (part.empty()) continue;
      slices.push_back({{moved(part.experts, held.box.experts.begin, 0), moved(part.rows, first, run.weight.begin),
                         moved(part.cols, held.box.cols.begin, 0)},
                        &write,
                        {part.experts.begin - write.box.experts.begin, part.rows.begin - write.box.rows.begin,
                         part.cols.begin - write.box.cols.begin}});
    }
  }
  return slices;
}

}  // namespace mtpcheck
