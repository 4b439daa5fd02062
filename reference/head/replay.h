#pragma once

#include <vector>

#include "reference/head/head_options.h"
#include "reference/head/recording.h"
#include "reference/head/stages/frame.h"

namespace mtpcheck {

/// One stage on recorded inputs; see ReferenceHead::replay.
template <class S>
std::vector<ReplayedTensor> replay_stage(const LayerDefinition& layer, Precision precision, Stage stage,
                                         const HeadInput& input, const RecordedStages& recorded,
                                         const ReplayOptions& options);

}  // namespace mtpcheck
