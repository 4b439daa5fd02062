#pragma once

#include <span>

#include "harness/loading/engines/engine_table.h"

namespace mtpcheck {

/// What two engines hold in a row whose cells are known.
///
/// sides    of all engines; the pair's numbers are indices into them
/// tensors  the request's headers
RowRelation relation_of(const EngineRow& row, EnginePair pair, std::span<const EngineSide> sides,
                        std::span<const TensorView> tensors);

}  // namespace mtpcheck
