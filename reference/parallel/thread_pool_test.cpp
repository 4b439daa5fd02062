#include "reference/parallel/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

namespace mtpcheck {
namespace {

constexpr std::size_t kMuch = std::size_t{1} << 30;

TEST(ThreadPool, EveryItemRunsOnce) {
  for (const std::size_t threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const std::size_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(count);
      pool.for_each(count, kMuch, [&](std::size_t i) { ++runs[i]; });
      for (const auto& run : runs) EXPECT_EQ(run, 1);
    }
  }
}

TEST(ThreadPool, RangesCoverTheCount) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> runs(103);
  pool.for_ranges(runs.size(), 10, kMuch, [&](std::size_t begin, std::size_t end) {
    EXPECT_LE(end - begin, 10U);
    for (std::size_t i = begin; i < end; ++i) ++runs[i];
  });
  for (const auto& run : runs) EXPECT_EQ(run, 1);
}

TEST(ThreadPool, ACallFromWithinAnItemRunsInPlace) {
  ThreadPool pool(3);
  std::atomic<int> total = 0;
  pool.for_each(8, kMuch, [&](std::size_t) { pool.for_each(5, kMuch, [&](std::size_t) { ++total; }); });
  EXPECT_EQ(total, 40);
}

TEST(ThreadPool, LittleWorkStaysWithTheCaller) {
  ThreadPool pool(4);
  pool.for_each(100, 10,
                [caller = std::this_thread::get_id()](std::size_t) { EXPECT_EQ(std::this_thread::get_id(), caller); });
}

TEST(ThreadPool, TheExceptionOfTheLowestItemArrives) {
  ThreadPool pool(3);
  for (int round = 0; round < 20; ++round) {
    try {
      pool.for_each(50, kMuch, [](std::size_t i) {
        if (i % 10 == 7) throw std::runtime_error(std::to_string(i));
      });
      FAIL() << "no exception";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "7");
    }
  }
}

}  // namespace
}  // namespace mtpcheck
