#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/loading/symbolic/source_view.h"
#include "harness/loading/vllm/head/draft_head.h"
#include "harness/loading/plan/load_log.h"

namespace mtpcheck::vllm {

/// Runs the experts' weight loader for one expert: one call, logged with its copies. False where the expert belongs to
/// another rank.
///
/// shard    w1 (gate), w2 (down) or w3 (up)
/// expert   global number
///
/// Throws Raised where the loader raises.
bool load_expert(const EngineParameter& parameter, std::uint32_t index, const SourceView& weight, Shard shard,
                 std::size_t expert, const std::vector<std::int64_t>& local_expert, LoadLog& log);

/// A projection of one expert that a tensor's name asks for.
struct ExpertProjection {
  std::size_t expert;
  Shard shard;
  std::string parameter;  ///< the name with the projection replaced: "….experts.routed_experts.w13_weight"
};

/// The projections that a name addresses in the layout of one tensor an expert
/// (`….experts.E.{gate,up,down}_proj.…`, E below `experts`), in the order in which vLLM tries them.
std::vector<ExpertProjection> split_expert_projections(const std::string& name, std::size_t experts);

}  // namespace mtpcheck::vllm
