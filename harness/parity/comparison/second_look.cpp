#include "harness/parity/comparison/second_look.h"

#include <fmt/format.h>

#include <cstdint>

#include "harness/parity/stage/stage_errors.h"

namespace mtpcheck {
namespace {

constexpr std::uint64_t kNearbyInputs = 8;

}  // namespace

StageKeys doubtful_stages(const Trace& candidate, const Trace& truth, const NoiseByStage& noise,
                          const Tolerance& tolerance) {
  StageKeys doubtful;
  const RelativeNoise relative = pooled_noise(noise);
  for (const auto& [key, of_stage] : noise) {
    const Tensor* const theirs = find(candidate, key);
    const Tensor* const exact = find(truth, key);
    if (theirs == nullptr || exact == nullptr || theirs->shape != exact->shape) continue;
    const auto errors =
        stage_errors(key.stage, theirs->view(), exact->view(), of_stage, tolerance, noise_at(relative, key.stage));
    if (may_be_luck(errors.record)) doubtful.insert(key);
  }
  return doubtful;
}

void measure_again(NoiseByStage& noise, const StageKeys& doubtful, Dtype precision,
                   const std::function<Trace(Dtype precision, const Nearby& nearby)>& run,
                   const std::function<void(std::string_view doing)>& progress) {
  if (doubtful.empty()) return;
  Nearby nearby;
  for (const StageKey& key : doubtful) nearby.stages.insert(key.stage);
  for (nearby.sample = 1; nearby.sample <= kNearbyInputs; ++nearby.sample) {
    if (progress) {
      progress(fmt::format("rounding noise of {} doubtful stages on a nearby input, {} of {}", doubtful.size(),
                           nearby.sample, kNearbyInputs));
    }
    const Trace exact = run(Dtype::f64, nearby);
    const Trace rounded = run(precision, nearby);
    for (const StageKey& key : doubtful) {
      const Tensor* const truth = find(exact, key);
      const Tensor* const noisy = find(rounded, key);
      if (truth == nullptr || noisy == nullptr || truth->shape != noisy->shape) continue;
      add_sample(noise.at(key), key.stage, noisy->view(), truth->view());
    }
  }
}

}  // namespace mtpcheck
