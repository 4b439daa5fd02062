#include "harness/checkpoint/natural_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace mtpcheck {
namespace {

TEST(NaturalOrder, NumbersCompareAsNumbers) {
  std::vector<std::string> names{"model-10.safetensors",
                                 "model-2.safetensors",
                                 "model-00001-of-00131.safetensors",
                                 "model.safetensors",
                                 "model-00100-of-00131.safetensors",
                                 "7.safetensors"};
  std::sort(names.begin(), names.end(), natural_less);
  EXPECT_EQ(names, (std::vector<std::string>{"7.safetensors", "model-00001-of-00131.safetensors", "model-2.safetensors",
                                             "model-10.safetensors", "model-00100-of-00131.safetensors",
                                             "model.safetensors"}));
}

TEST(NaturalOrder, NumbersOfAnyLength) {
  EXPECT_TRUE(natural_less("a99999999999999999999999999", "a100000000000000000000000000"));
  EXPECT_FALSE(natural_less("a100000000000000000000000000", "a99999999999999999999999999"));
}

TEST(NaturalOrder, IsAStrictWeakOrder) {
  const std::vector<std::string> names{"",   "0",   "00",  "a", "a0", "a00", "a0b",
                                       "a1", "a01", "a1b", "b", "10", "9",   "-1"};
  for (const auto& a : names) {
    EXPECT_FALSE(natural_less(a, a)) << a;
    for (const auto& b : names) {
      if (a != b) {
        EXPECT_NE(natural_less(a, b), natural_less(b, a)) << a << " " << b;
      }
      for (const auto& c : names) {
        if (natural_less(a, b) && natural_less(b, c)) {
          EXPECT_TRUE(natural_less(a, c)) << a << " " << b << " " << c;
        }
      }
    }
  }
}

}  // namespace
}  // namespace mtpcheck
