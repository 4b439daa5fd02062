#include "harness/faults/study/fault_study.h"

#include <gtest/gtest.h>

#include "golden/cases/tiny_hy4.h"
#include "harness/acceptance/trace/trace_file.h"
#include "harness/checkpoint/scratch_directory.h"
#include "harness/inputs/input_file.h"

namespace mtpcheck {
namespace {

using golden::kTinyHy4;

FaultStudy tiny_study(const ScratchDirectory& scratch) {
  FaultStudy study;
  study.bases = kTinyHy4;
  study.scratch = scratch.path();
  study.target_norm = target_norm_of(kTinyHy4);
  study.rows = [](const HeadConfig& config) {
    return packed({read_head_input(kTinyHy4 / "traces/passage-00.safetensors", config),
                   read_head_input(kTinyHy4 / "traces/passage-01.safetensors", config)});
  };
  return study;
}

// Mutation testing of the harness: the right command sees each fault at the right place.
TEST(FaultStudy, EveryFaultWithAnEffectIsCaughtAtTheRightPlace) {
  const ScratchDirectory scratch;
  const auto faults = fault_catalogue();
  const auto results = study_faults(tiny_study(scratch), faults);
  for (const auto& result : results) {
    EXPECT_FALSE(result.missed()) << result.id << " must be caught by " << to_string(result.caught_by) << " at "
                                  << result.where << "; seen: " << result.catcher().evidence;
  }
  const FaultScore total = score(results);
  std::printf("caught %zu, missed %zu, no effect on this input %zu\n", total.caught, total.missed, total.no_effect);
  EXPECT_GE(total.caught, 80U);
  // Shown on inputs that are made for it: reference_side/constructed_inputs_test.cpp.
  std::vector<std::string> no_effect;
  for (const auto& result : results) {
    if (!result.effect) no_effect.push_back(result.id);
  }
  EXPECT_EQ(no_effect, (std::vector<std::string>{"k-norm-eps", "bias-in-bf16", "clamp-on-shared"}));
}

// A fault that only looks like one: the study must not claim to have caught it.
TEST(FaultStudy, AFaultWithoutAnEffectIsNotCalledCaught) {
  const ScratchDirectory scratch;
  const std::vector<Fault> faults{{.id = "none",
                                   .kind = FaultKind::head,
                                   .what = "nothing",
                                   .source = "nobody",
                                   .caught_by = Catcher::compare,
                                   .where = "q_rope",
                                   .base = "bf16",
                                   .head = [](HeadMistake&) {}}};
  const auto results = study_faults(tiny_study(scratch), faults);
  EXPECT_FALSE(results.front().effect);
  EXPECT_FALSE(results.front().caught());
  EXPECT_FALSE(results.front().compare.seen);
}

}  // namespace
}  // namespace mtpcheck
