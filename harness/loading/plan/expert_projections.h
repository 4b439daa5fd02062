#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "harness/loading/plan/plan.h"

namespace mtpcheck {

/// A projection of one expert that a tensor's name asks for.
struct ExpertProjection {
  std::size_t expert;
  Shard shard;
  std::string parameter;  ///< the name with the projection replaced: "….experts.w13_weight"
};

/// The projections that a name addresses in the layout of one tensor an expert
/// (`….experts.E.{gate,up,down}_proj.…`, E below `experts`), expert by expert, gate before down before up: the order in
/// which engines go through their tables.
///
/// stem  what stands for `experts.E.gate_proj.` before "w13_": "experts." in SGLang, "experts.routed_experts." in vLLM
std::vector<ExpertProjection> split_expert_projections(const std::string& name, std::size_t experts,
                                                       std::string_view stem);

}  // namespace mtpcheck
