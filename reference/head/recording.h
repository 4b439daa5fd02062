#pragma once

#include <functional>
#include <optional>

#include "reference/head/precision.h"
#include "reference/head/stages/frame.h"
#include "reference/model/head.h"
#include "reference/model/stages.h"

namespace mtpcheck {

/// Recorded tensors by name: a trace, a dump. nullopt for what was not recorded.
using RecordedStages = std::function<std::optional<TensorView>(const StageKey&)>;

/// The extents of a stage's tensor for `tokens` rows and `keys` keys.
Shape shape_of_stage(Stage stage, const HeadConfig& config, std::size_t tokens, std::size_t keys);

/// Hands a stage's value to the sink, one tensor a sequence where the stage is per sequence and several are packed. A
/// bf16 or f16 run gives what it rounds in that format, and in float32 what an engine keeps in float32.
template <class S>
void record(const Frame<S>& frame, Stage stage, Precision precision, std::size_t step, StageSink& sink);

/// The inverse: sets a stage's value from recorded tensors. False when one is missing. Throws Error{input} for a shape
/// that does not fit.
template <class S>
bool restore(Frame<S>& frame, Stage stage, std::size_t step, const RecordedStages& recorded);

}  // namespace mtpcheck
