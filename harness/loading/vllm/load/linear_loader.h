#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "harness/loading/plan/load_log.h"
#include "harness/loading/symbolic/source_view.h"
#include "harness/loading/vllm/head/draft_head.h"

namespace mtpcheck::vllm {

/// Runs the weight loader of any parameter but the experts': one call, logged with its copies.
///
/// part   which projection of a fused parameter; nullopt where the checkpoint's name is the fused one
///
/// Throws Raised where the loader raises; what it copied before stays in the log.
void load_parameter(const EngineParameter& parameter, std::uint32_t index, const SourceView& weight,
                    std::optional<std::size_t> part, LoadLog& log);

}  // namespace mtpcheck::vllm
