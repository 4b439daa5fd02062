#include "harness/heads/make_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "golden/cases/tiny_hy4.h"
#include "harness/checkpoint/bounded_json.h"
#include "harness/checkpoint/scratch_directory.h"
#include "harness/heads/opened_checkpoint.h"
#include "reference/protocol/drafter.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

using golden::kTinyHy4;
using ::testing::AllOf;
using ::testing::HasSubstr;

HeadInput three_rows(const HeadConfig& config) {
  HeadInput input;
  input.input_ids = {5, 6, 7};
  input.positions = {0, 1, 2};
  input.cu_seqlens = {0, 3};
  input.hidden_states = make_tensor(Dtype::f32, {3, config.hidden_size});
  return input;
}

Failure failure_of(const HeadChoice& choice) {
  const auto opened = open_for_heads(kTinyHy4 / "checkpoint-split");
  try {
    make_head(choice, opened.config, opened.weights, {});
  } catch (const Error& error) {
    return error.failure();
  }
  ADD_FAILURE() << "made";
  return Failure::input;
}

TEST(MakeHead, EveryHeadOfTheBuildRunsOnTinyHy4) {
  const auto opened = open_for_heads(kTinyHy4 / "checkpoint-bf16");
  for (const auto& name : available_heads()) {
    if (name == "cuda") continue;  // needs a device; the others are what CI can run
    const auto head = make_head({.head = name, .dtype = "bf16"}, opened.config, opened.weights, {});
    EXPECT_EQ(draft_forward(*head, three_rows(opened.config)).rows, 3U) << name;
  }
}

TEST(MakeHead, NamesAndDtypesThatAreNoneAreUsageErrors) {
  EXPECT_EQ(failure_of({.head = "tourch"}), Failure::usage);
  EXPECT_EQ(failure_of({.head = "reference", .dtype = "f8"}), Failure::usage);
}

// On a faultless checkpoint the engine loads what the files mean, so both readings give one head.
TEST(OpenForHeads, AsLoadedIsAsMeantOnEveryCleanCheckpoint) {
  for (const char* name : {"checkpoint-bf16", "checkpoint-split", "checkpoint-fp8-block", "checkpoint-mxfp8"}) {
    const auto meant = open_for_heads(kTinyHy4 / name);
    const auto loaded = open_for_heads(kTinyHy4 / name, {.as_loaded = true});
    const auto a = make_head({.dtype = "f32"}, meant.config, meant.weights, {});
    const auto b = make_head({.dtype = "f32"}, loaded.config, loaded.weights, {});
    const auto input = three_rows(meant.config);
    EXPECT_EQ(draft_forward(*a, input).logits, draft_forward(*b, input).logits) << name;
  }
}

TEST(OpenForHeads, AConfigThatNoHeadComputesIsRefusedWithItsKey) {
  for (const auto& [key, value] : {std::pair{"hidden_act", nlohmann::json("gelu")}, {"num_nextn_predict_layers", 0}}) {
    const ScratchDirectory scratch;
    std::filesystem::copy(kTinyHy4 / "checkpoint-split", scratch.path() / "head");
    const auto file = scratch.path() / "head/config.json";
    auto config = read_bounded_json(file);
    config[key] = value;
    std::ofstream(file) << config;
    try {
      open_for_heads(scratch.path() / "head");
      FAIL() << key;
    } catch (const Error& error) {
      EXPECT_EQ(error.failure(), Failure::input);
      EXPECT_THAT(error.what(), AllOf(HasSubstr(file.string()), HasSubstr(key)));
    }
  }
}

TEST(OpenForHeads, AnUnknownLoaderIsAUsageError) {
  try {
    open_for_heads(kTinyHy4 / "checkpoint-split", {.as_loaded = true, .loader = "tgi"});
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::usage);
  }
}

}  // namespace
}  // namespace mtpcheck
