#include "harness/inputs/random_input.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "harness/inputs/input_file.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

HeadConfig small_shape() {
  HeadConfig config;
  config.hidden_size = 512;
  config.vocab_size = 97;
  return config;
}

TEST(RandomInput, FitsTheConfigAndHasTheStatedMoments) {
  const HeadInput input = random_head_input(small_shape(), 200, 7);
  EXPECT_NO_THROW(check_input(input, small_shape(), "random"));
  double sum = 0;
  double squares = 0;
  const auto values = to_f64(input.hidden_states.view());
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(values.size());
  EXPECT_NEAR(sum / count, 0, 4 / std::sqrt(count));
  EXPECT_NEAR(squares / count, 1, 8 / std::sqrt(count));
  EXPECT_GT(*std::ranges::max_element(input.input_ids), 80);
}

TEST(RandomInput, TheSeedDecidesAndShortIsAPrefixOfLong) {
  const HeadInput a = random_head_input(small_shape(), 20, 1);
  const HeadInput b = random_head_input(small_shape(), 10, 1);
  const HeadInput c = random_head_input(small_shape(), 20, 2);
  EXPECT_TRUE(std::equal(b.input_ids.begin(), b.input_ids.end(), a.input_ids.begin()));
  EXPECT_TRUE(std::equal(b.hidden_states.bytes.begin(), b.hidden_states.bytes.end(), a.hidden_states.bytes.begin()));
  EXPECT_NE(a.input_ids, c.input_ids);
  EXPECT_NE(a.hidden_states.bytes, c.hidden_states.bytes);
}

TEST(RandomInput, ValuesAreTheSameOnEveryMachine) {  // computed once in Python, from the definition
  const HeadInput input = random_head_input(small_shape(), 2, 0);
  EXPECT_EQ(input.input_ids, (std::vector<std::int64_t>{85, 35}));
  const auto values = to_f64(input.hidden_states.view());
  EXPECT_EQ(values[0], 1.40625);
  EXPECT_EQ(values[1023], 1.8046875);
}

TEST(RandomInput, NoTokensAreAUsageError) {
  try {
    random_head_input(small_shape(), 0, 0);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::usage);
  }
}

}  // namespace
}  // namespace mtpcheck
