#pragma once

#include <cstdint>
#include <vector>

#include "harness/loading/plan/load_log.h"
#include "harness/loading/symbolic/source_view.h"
#include "harness/loading/vllm/head/draft_head.h"

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

}  // namespace mtpcheck::vllm
