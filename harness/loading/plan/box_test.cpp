#include "harness/loading/plan/box.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtpcheck {
namespace {

constexpr Box kCube{{0, 4}, {0, 6}, {0, 8}};

TEST(Box, WithoutAHoleInsideLosesJustItsElements) {
  const Box hole{{1, 2}, {2, 4}, {3, 8}};
  std::size_t elements = 0;
  const auto rest = difference(kCube, hole);
  for (const Box& box : rest) {
    elements += box.elements();
    EXPECT_TRUE(intersection(box, hole).empty());
  }
  EXPECT_EQ(elements, kCube.elements() - hole.elements());
  for (std::size_t i = 0; i < rest.size(); ++i) {
    for (std::size_t j = i + 1; j < rest.size(); ++j) EXPECT_TRUE(intersection(rest[i], rest[j]).empty());
  }
}

TEST(Box, WithoutAHoleElsewhereIsItself) {
  EXPECT_THAT(difference(kCube, Box{{4, 5}, {0, 6}, {0, 8}}), testing::ElementsAre(kCube));
}

TEST(Box, WithoutItselfIsNothing) { EXPECT_TRUE(difference(kCube, kCube).empty()); }

TEST(Box, SlicesOfOneBoxJoinAgain) {
  const std::vector<Box> slices{
      {{2, 3}, {0, 6}, {0, 8}}, {{0, 2}, {0, 6}, {4, 8}}, {{3, 4}, {0, 6}, {0, 8}}, {{0, 2}, {0, 6}, {0, 4}}};
  EXPECT_THAT(joined(slices), testing::ElementsAre(kCube));
}

TEST(Box, WhatOnlyTouchesAtAnEdgeStaysApart) {
  const std::vector<Box> corners{{{0, 1}, {0, 1}, {0, 1}}, {{0, 1}, {1, 2}, {1, 2}}};
  EXPECT_EQ(joined(corners), corners);
}

}  // namespace
}  // namespace mtpcheck
