#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "harness/loading/meaning/meaning.h"

namespace mtpcheck {

std::string_view to_string(MeaningProblem::Id id) {
  using Id = MeaningProblem::Id;
  switch (id) {
    case Id::no_mtp_weights:
      return "no-mtp-weights";
    case Id::layer_not_filled:
      return "layer-not-filled";
    case Id::extra_layer:
      return "extra-layer";
    case Id::missing:
      return "missing";
    case Id::ambiguous:
      return "ambiguous";
    case Id::shape_mismatch:
      return "shape-mismatch";
    case Id::expert_count:
      return "expert-count";
    case Id::dtype_contradiction:
      return "dtype-contradiction";
    case Id::scale_missing:
      return "scale-missing";
    case Id::orphan_scale:
      return "orphan-scale";
    case Id::scale_conflict:
      return "scale-conflict";
    case Id::scale_format:
      return "scale-format";
    case Id::unknown_tensor:
      break;
  }
  return "unknown-tensor";
}

std::string describe(const MeaningProblem& problem, const HeaderSet& headers) {
  std::vector<std::string> places;
  places.reserve(problem.tensors.size());
  for (const std::uint32_t tensor : problem.tensors) {
    places.push_back(fmt::format("{}: {}", headers.tensors[tensor].file, headers.tensors[tensor].name));
  }
  const std::string weight = problem.weight.empty() ? std::string() : " " + problem.weight;
  const std::string where = places.empty() ? std::string() : fmt::format(" ({})", fmt::join(places, "; "));
  return fmt::format("{}: MTP layer {}{}: {}; {} was expected{}", to_string(problem.id), problem.layer, weight,
                     problem.found, problem.expected, where);
}

}  // namespace mtpcheck
