#include "reference/model/stages.h"

#include <gtest/gtest.h>

namespace mtpcheck {
namespace {

TEST(Stages, TableIsInTheOrderOfTheEnumeration) {
  std::size_t index = 0;
  for (const auto& stage : all_stages()) EXPECT_EQ(static_cast<std::size_t>(stage.stage), index++);
  EXPECT_EQ(index, kStages);
  EXPECT_EQ(static_cast<std::size_t>(Stage::logits) + 1, kStages);
}

TEST(Stages, KeysRoundTripThroughTheirNames) {
  for (const auto& stage : all_stages()) {
    for (const StageKey& key : {StageKey{stage.stage, 0, std::nullopt}, StageKey{stage.stage, 2, 11}}) {
      EXPECT_EQ(stage_key_from_name(to_string(key)), key);
    }
  }
}

TEST(Stages, NamesThatAreNoKeysAreRefused) {
  for (const char* text : {"", "q_", "step.q", "stepx.q", "step1q", "q.seq", "q.seqx", "q.1", "f32.q"}) {
    EXPECT_FALSE(stage_key_from_name(text)) << text;
  }
}

}  // namespace
}  // namespace mtpcheck
