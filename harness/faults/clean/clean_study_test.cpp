#include "harness/faults/clean/clean_study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "golden/cases/tiny_hy4.h"
#include "harness/acceptance/trace/trace_file.h"
#include "harness/checkpoint/scratch_directory.h"

namespace mtpcheck {
namespace {

using golden::kTinyHy4;

CleanStudy clean_study(const ScratchDirectory& scratch) {
  CleanStudy study;
  study.base = kTinyHy4 / "checkpoint-bf16";
  study.scratch = scratch.path();
  study.traces.push_back(read_target_trace(kTinyHy4 / "traces/passage-00.safetensors"));
  return study;
}

TEST(CleanStudy, TwoHundredCleanVariationsRaiseNoAlarm) {
  const ScratchDirectory scratch;
  const auto variations = clean_variations(200);
  std::set<std::string> names;
  std::set<std::string> presets;
  std::set<WeightFormat> formats;
  std::set<std::size_t> ranks;
  for (const auto& variation : variations) {
    names.insert(variation.name());
    presets.insert(variation.preset);
    formats.insert(variation.format);
    ranks.insert(variation.topology.tp_size);
  }
  ASSERT_EQ(names.size(), 200U);
  EXPECT_EQ(presets.size(), 3U);
  EXPECT_EQ(formats.size(), 5U);
  EXPECT_EQ(ranks, (std::set<std::size_t>{1, 2, 4}));
  for (const auto& result : study_clean(clean_study(scratch), variations)) {
    EXPECT_THAT(result.alarms, testing::IsEmpty()) << result.name;
  }
}

// Its silence means something: each command speaks up when a variation is not what its plain layout is.
TEST(CleanStudy, SpeaksUpOnAVariationThatIsNotClean) {
  const ScratchDirectory scratch;
  const std::string mtp = "model.mtp_layers.0.";
  const std::vector<CleanVariation> one(1);
  CleanStudy study = clean_study(scratch);
  study.spoil = [&](EditableCheckpoint& checkpoint) {
    exchange(checkpoint, mtp + "mlp.experts.6.gate_proj.weight", mtp + "mlp.experts.6.up_proj.weight");
  };
  EXPECT_THAT(study_clean(study, one).front().alarms,
              testing::ElementsAre(testing::HasSubstr("compare: experts_out"), testing::HasSubstr("accept: greedy")));
  study.spoil = [&](EditableCheckpoint& checkpoint) { drop(checkpoint, mtp + "enorm.weight"); };
  EXPECT_THAT(study_clean(study, one).front().alarms, testing::Contains(testing::HasSubstr("audit: ")));
}

}  // namespace
}  // namespace mtpcheck
