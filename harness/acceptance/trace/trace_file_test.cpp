#include "harness/acceptance/trace/trace_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "golden/cases/tiny_hy4.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

using golden::kTinyHy4;

TEST(ReadTargetTrace, ReadsNaturalText) {
  const auto trace = read_target_trace(kTinyHy4 / "traces/passage-00.safetensors");
  EXPECT_EQ(trace.origin, TraceOrigin::natural);
  EXPECT_EQ(trace.tokens(), 160U);
  EXPECT_EQ(trace.vocabulary, 288U);
  EXPECT_EQ(trace.input_ids.front(), 257);  // bos
  check_trace(trace, 256, 288);
}

TEST(ReadTargetTrace, Hdf5HoldsTheSameNumbers) {
  const auto a = read_target_trace(kTinyHy4 / "traces/passage-00.safetensors");
  const auto b = read_target_trace(kTinyHy4 / "traces/passage-00.h5");
  EXPECT_EQ(a.input_ids, b.input_ids);
  EXPECT_EQ(to_f32(a.target_hidden.view()), to_f32(b.target_hidden.view()));
  for (const std::size_t row : {0U, 77U, 159U}) {
    EXPECT_TRUE(std::ranges::equal(a.logits_of(row).values(), b.logits_of(row).values()));
  }
}

TEST(ReadTargetTrace, GeneratedTextSaysHowItWasMade) {
  const auto greedy = read_target_trace(kTinyHy4 / "generated/greedy/passage-00.safetensors");
  EXPECT_EQ(greedy.origin, TraceOrigin::greedy);
  EXPECT_EQ(greedy.prompt_length, 33U);
  EXPECT_EQ(read_target_trace(kTinyHy4 / "generated/sampled/passage-00.safetensors").origin, TraceOrigin::sampled);
}

TEST(ReadTargetTrace, AFileWithoutTheTensorsNamesTheFirstOne) {
  try {
    read_target_trace(kTinyHy4 / "checkpoint-split/model.safetensors");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::input);
    EXPECT_THAT(error.what(), testing::HasSubstr("no tensor input_ids"));
  }
}

}  // namespace
}  // namespace mtpcheck
