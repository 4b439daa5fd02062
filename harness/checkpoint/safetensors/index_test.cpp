#include "harness/checkpoint/safetensors/index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtpcheck {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::variant<SafetensorsIndex, Problem> index_of(std::string_view text) {
  return read_index(std::as_bytes(std::span(text)), "model.safetensors.index.json");
}

std::string corrupt(std::string_view text) {
  const auto result = index_of(text);
  const auto* const problem = std::get_if<Problem>(&result);
  if (problem == nullptr) return "accepted";
  EXPECT_EQ(problem->id, ProblemId::corrupt_index);
  return problem->message;
}

TEST(SafetensorsIndex, GivesEachTensorItsShard) {
  const auto index = std::get<SafetensorsIndex>(index_of(
      R"({"metadata": {"total_size": 12}, "weight_map": {"x": "m-10.safetensors", "y": "m-2.safetensors", "z": "m-10.safetensors"}})"));
  EXPECT_THAT(index.files, ElementsAre("m-2.safetensors", "m-10.safetensors"));
  EXPECT_EQ(index.shard.at("x"), 1U);
  EXPECT_EQ(index.shard.at("y"), 0U);
  EXPECT_EQ(index.shard.at("z"), 1U);
}

TEST(SafetensorsIndex, WhatIsNoneIsRefused) {
  EXPECT_THAT(corrupt(""), HasSubstr("an empty file"));
  EXPECT_THAT(corrupt("{"), HasSubstr("not valid JSON"));
  EXPECT_THAT(corrupt("[]"), HasSubstr("not valid JSON"));
  EXPECT_THAT(corrupt("{}"), HasSubstr("no weight_map"));
  EXPECT_THAT(corrupt(R"({"weight_map": []})"), HasSubstr("weight_map is no object"));
  EXPECT_THAT(corrupt(R"({"weight_map": {}, "weight_map": {}})"), HasSubstr("weight_map stands twice"));
  EXPECT_THAT(corrupt(R"({"weight_map": {"a": 1}})"), HasSubstr("the shard of a is no text"));
  EXPECT_THAT(corrupt(R"({"weight_map": {"a": "f", "a": "g"}})"), HasSubstr("a stands twice"));
  EXPECT_THAT(corrupt(R"({"weight_map": )" + std::string(100'000, '[') + "}"), HasSubstr("not valid JSON"));
}

}  // namespace
}  // namespace mtpcheck
