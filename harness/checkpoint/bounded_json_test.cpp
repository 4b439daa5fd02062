#include "harness/checkpoint/bounded_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string failure(std::string_view text, const JsonBounds& bounds = {}) {
  try {
    parse_bounded_json(text, "config.json", bounds);
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::input);
    return error.what();
  }
  return {};
}

TEST(BoundedJson, ParsesWhatIsWithinBounds) {
  EXPECT_EQ(parse_bounded_json(R"({"a": {"b": 1}, "c": [{"b": 2}, {"b": 3}]})", "f").at("c").at(1).at("b"), 3);
}

TEST(BoundedJson, RefusesWhatIsNot) {
  EXPECT_THAT(failure(R"({"a": 1, "b": {"c": 1, "c": 2}})"),
              AllOf(HasSubstr("config.json"), HasSubstr("\"c\" stands twice")));
  EXPECT_THAT(failure(std::string(100, '[') + std::string(100, ']')), HasSubstr("deeper than 64"));
  EXPECT_THAT(failure(std::string(1'000'000, '[')), HasSubstr("deeper than 64"));
  EXPECT_THAT(failure("{\"a\": 1", {}), HasSubstr("at byte 8"));
  EXPECT_THAT(failure("{\"a\": \"\xff\"}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(failure("{} {}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(failure("{\"aaaa\": 1}", {8, 4}), HasSubstr("at most 8"));
  EXPECT_THAT(failure(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(failure("{"), Not(HasSubstr("json.exception")));
}

}  // namespace
}  // namespace mtpcheck
