#pragma once

#include <string>
#include <vector>

#include "golden/cases/forward_case.h"
#include "reference/model/input.h"

/// The policy of docs/tolerance.md for a candidate in bf16, in its cumulative view: enough for a test of a head, and
/// free of the harness.
namespace mtpcheck::golden {

/// The selections that a run recorded, as what another run is forced to.
Selections selections_of(const Tensors& stages, std::size_t sequences);

/// Stages whose root mean square error exceeds twice that of the rounded reference and four units in the last place,
/// with both figures; stages that the truth does not have, or in another shape.
std::vector<std::string> beyond_policy(const Tensors& candidate, const Tensors& truth, const Tensors& rounded);

}  // namespace mtpcheck::golden
