#include "harness/loading/engines/relations.h"

#include <algorithm>

namespace mtpcheck {
namespace {

/// The engine's own parameter is not what it runs on.
bool filled_elsewhere(const EngineCell& cell) {
  return cell.status == CellStatus::by_default || cell.status == CellStatus::shared;
}

bool has_layer(const EngineSide& side, std::size_t layer) {
  return std::ranges::any_of(side.held, [layer](const auto& entry) { return entry.first.layer == layer; });
}

Relation relation_from(const Agreement& sum) {
  if (sum.different > 0 || sum.only_first > 0 || sum.only_second > 0) return Relation::differs;
  if (sum.neither > 0) return Relation::incomplete;
  return sum.turned ? Relation::permuted : Relation::equal;
}

/// Scales that only one engine keeps are no difference where the numbers times them are the other's numbers.
bool numbers_make_up_for(const EngineRow& row, const EngineSide& first, const EngineSide& second,
                         std::span<const TensorView> tensors) {
  return std::ranges::all_of(row.parameters.weights, [&](WeightKey key) {
    key.aspect = Aspect::numbers;
    if (first.find(key) == nullptr || second.find(key) == nullptr) return false;
    const Agreement agreement = agreement_of(key, first, second, tensors);
    return agreement.same > 0 && relation_from(agreement) != Relation::differs;
  });
}

/// The engine takes the target model's own parameters for these weights.
bool shares(const EngineRow& row, const EngineSide& side) {
  return std::ranges::any_of(row.parameters.weights, [&](WeightKey key) {
    key.aspect = Aspect::numbers;
    const HeldWeight* const held = side.find(key);
    return held != nullptr && side.plan->parameters[held->parameter].origin == Origin::target;
  });
}

}  // namespace

RowRelation relation_of(const EngineRow& row, EnginePair pair, std::span<const EngineSide> sides,
                        std::span<const TensorView> tensors) {
  RowRelation result{pair, Relation::not_compared, {}};
  const EngineCell& left = row.cells[pair.first];
  const EngineCell& right = row.cells[pair.second];
  const EngineSide& first = sides[pair.first];
  const EngineSide& second = sides[pair.second];
  if (left.status == CellStatus::refused || right.status == CellStatus::refused || row.parameters.kv_scale) {
    return result;
  }
  if (left.status == CellStatus::absent && right.status == CellStatus::absent) return result;
  if (left.status == CellStatus::absent || right.status == CellStatus::absent) {
    const bool in_first = right.status == CellStatus::absent;
    const EngineSide& without = in_first ? second : first;
    if (!has_layer(without, row.parameters.layer) || shares(row, without)) return result;
    if (row.parameters.aspect == Aspect::input_scale) return result;
    if (row.parameters.aspect != Aspect::numbers && numbers_make_up_for(row, first, second, tensors)) {
      result.relation = Relation::equal;
      return result;
    }
    result.relation = in_first ? Relation::only_first : Relation::only_second;
    (in_first ? result.agreement.only_first : result.agreement.only_second) = (in_first ? left : right).written;
    return result;
  }
  if (filled_elsewhere(left) || filled_elsewhere(right)) return result;
  for (const WeightKey& key : row.parameters.weights) {
    const HeldWeight* const in_first = first.find(key);
    const HeldWeight* const in_second = second.find(key);
    if (in_first != nullptr && in_second != nullptr) {
      result.agreement.add(agreement_of(key, first, second, tensors));
    } else if (in_first != nullptr) {
      result.agreement.only_first += in_first->box.elements();
    } else if (in_second != nullptr) {
      result.agreement.only_second += in_second->box.elements();
    }
  }
  result.relation = relation_from(result.agreement);
  return result;
}

}  // namespace mtpcheck
