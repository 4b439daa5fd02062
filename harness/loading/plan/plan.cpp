#include "harness/loading/plan/plan.h"

#include <algorithm>
#include <array>
#include <utility>

namespace mtpcheck {
namespace {

constexpr std::array<std::pair<Outcome, std::string_view>, 11> kOutcomes{{
    {Outcome::loaded, "loaded"},
    {Outcome::not_local, "not_local"},
    {Outcome::buffered, "buffered"},
    {Outcome::skipped, "skipped"},
    {Outcome::ignored, "ignored"},
    {Outcome::unknown_warning, "unknown_warning"},
    {Outcome::kv_scale_warning, "kv_scale_warning"},
    {Outcome::dropped_silently, "dropped_silently"},
    {Outcome::error, "error"},
    {Outcome::not_reached, "not_reached"},
    {Outcome::not_listed, "not_listed"},
}};

}  // namespace

std::string_view to_string(Outcome outcome) { return kOutcomes[static_cast<std::size_t>(outcome)].second; }

std::optional<Outcome> outcome_from_string(std::string_view word) {
  const auto found = std::ranges::find(kOutcomes, word, &std::pair<Outcome, std::string_view>::second);
  if (found == kOutcomes.end()) return std::nullopt;
  return found->first;
}

std::string_view to_string(Shard shard) {
  constexpr std::array<std::string_view, 6> kWords{"", "0", "1", "w1", "w2", "w3"};
  return kWords[static_cast<std::size_t>(shard)];
}

ByteRange bytes_read(const Write& write, const TensorView& tensor) {
  if (write.conversion.kind == Conversion::Kind::fill) return {tensor.offset, 0, true};
  const std::array<std::size_t, 3> sizes{write.box.experts.size(), write.box.rows.size(), write.box.cols.size()};
  // Offsets grow along every axis, so the first and the last element are the extremes.
  const std::size_t first = write.source_element(0, 0, 0);
  const std::size_t last = write.source_element(sizes[0] - 1, sizes[1] - 1, sizes[2] - 1);
  std::size_t distinct = 1;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const SourceAxis& walk = write.axes[axis];
    if (walk.stride != 0) distinct *= (walk.start + sizes[axis] - 1) / walk.repeat - walk.start / walk.repeat + 1;
  }
  const std::size_t bytes = bits_of(tensor.dtype) / 8;
  return {tensor.offset + first * bytes, (last - first + 1) * bytes, distinct == last - first + 1};
}

std::optional<std::uint32_t> LoadPlan::find_parameter(std::string_view name) const {
  const auto found = std::ranges::find(parameters, name, &Parameter::name);
  if (found == parameters.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - parameters.begin());
}

LoadPlan start_plan(std::string engine, std::string version, const LoadRequest& request,
                    std::vector<std::uint32_t> read_order) {
  LoadPlan plan;
  plan.engine = std::move(engine);
  plan.version = std::move(version);
  plan.read_order = std::move(read_order);
  plan.tensors.resize(request.headers.tensors.size());
  for (PlannedTensor& tensor : plan.tensors) tensor.outcome = Outcome::not_listed;
  for (const std::uint32_t index : plan.read_order) plan.tensors[index].outcome = Outcome::not_reached;
  return plan;
}

}  // namespace mtpcheck
