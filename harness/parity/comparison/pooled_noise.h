#pragma once

#include <map>

#include "harness/parity/trace/trace.h"

namespace mtpcheck {

/// By stage, the rounded reference's error over the stage's magnitude, of all draft steps and all sequences together.
/// Without the stages that have one tensor only.
using RelativeNoise = std::map<Stage, double>;

RelativeNoise pooled_noise(const Trace& truth, const Trace& rounded);

/// 0 for a stage that is not in it.
double noise_at(const RelativeNoise& noise, Stage stage);

}  // namespace mtpcheck
