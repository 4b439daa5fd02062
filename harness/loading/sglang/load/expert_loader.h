#pragma once

#include <cstdint>
#include <vector>

#include "harness/loading/sglang/head/head.h"
#include "harness/loading/symbolic/source_view.h"

namespace mtpcheck::sglang {

/// What the experts' weight loader did for one expert.
struct ExpertLoad {
  bool local = false;  ///< false: the expert is another rank's, or beyond the last; SGLang says neither
  std::vector<Write> writes;
};

/// FusedMoE.weight_loader for one expert.
///
/// shard    w1 (gate), w2 (down) or w3 (up)
/// expert   global number
/// tensor   the tensor at hand
///
/// Throws Raised where the loader raises.
ExpertLoad load_expert(const EngineParameter& parameter, std::uint32_t index, const SourceView& weight, Shard shard,
                       std::size_t expert, const DraftHead& head, std::uint32_t tensor);

}  // namespace mtpcheck::sglang
