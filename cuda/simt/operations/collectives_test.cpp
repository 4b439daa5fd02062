#include "cuda/simt/collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "cuda/simt/simt.h"
#include "cuda/simt/thrown.h"

namespace simt {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

std::vector<int> random_values(std::size_t count, int low, int high) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> any(low, high);
  std::vector<int> values(count);
  for (int& value : values) value = any(random);
  return values;
}

__global__ void warp_scan_kernel(const int* in, int* before, int* totals) {
  before[threadIdx.x] = warp_exclusive_sum(in[threadIdx.x], &totals[threadIdx.x]);
}

TEST(Collectives, AWarpsScanIsThePrefixSumOfItsLanes) {
  const auto in = random_values(96, -50, 50);
  std::vector<int> before(96);
  std::vector<int> totals(96);
  launch(warp_scan_kernel, dim3(1), dim3(96), 0, in.data(), before.data(), totals.data());
  for (int warp = 0; warp < 3; ++warp) {
    const auto first = in.begin() + 32 * warp;
    std::vector<int> expected(32);
    std::exclusive_scan(first, first + 32, expected.begin(), 0);
    EXPECT_EQ(std::vector<int>(before.begin() + 32 * warp, before.begin() + 32 * (warp + 1)), expected);
    EXPECT_THAT(std::vector<int>(totals.begin() + 32 * warp, totals.begin() + 32 * (warp + 1)),
                Each(std::accumulate(first, first + 32, 0)));
  }
}

template <class T, int kThreads>
__global__ void block_scan_kernel(const T* in, T* exclusive, T* inclusive, T* totals) {
  using Scan = BlockScan<T, kThreads>;
  SIMT_SHARED(typename Scan::Storage, storage, 2);
  exclusive[threadIdx.x] = Scan::exclusive_sum(storage[0], in[threadIdx.x], &totals[threadIdx.x]);
  inclusive[threadIdx.x] = Scan::inclusive_sum(storage[1], in[threadIdx.x], &totals[threadIdx.x]);
}

template <class T, int kThreads>
void check_block_scan() {
  const auto integers = random_values(kThreads, 0, 1000);
  const std::vector<T> in(integers.begin(), integers.end());
  std::vector<T> exclusive(kThreads);
  std::vector<T> inclusive(kThreads);
  std::vector<T> totals(kThreads);
  for (const Order order : {Order::ascending, Order::descending, Order::shuffled}) {
    const ScopedOptions scope(Options{.order = order, .seed = 3});
    launch(block_scan_kernel<T, kThreads>, dim3(1), dim3(kThreads), 0, in.data(), exclusive.data(), inclusive.data(),
           totals.data());
    std::vector<T> expected(kThreads);
    std::exclusive_scan(in.begin(), in.end(), expected.begin(), T{});
    EXPECT_EQ(exclusive, expected);
    std::inclusive_scan(in.begin(), in.end(), expected.begin());
    EXPECT_EQ(inclusive, expected);
    EXPECT_THAT(totals, Each(expected.back()));
  }
}

TEST(Collectives, ABlocksScanIsThePrefixSumOfItsThreads) {
  check_block_scan<int, 32>();
  check_block_scan<int, 256>();
  check_block_scan<unsigned long long, 256>();
  check_block_scan<double, 512>();
}

template <int kThreads, int kItems>
__global__ void sort_kernel(unsigned* keys, int* values, int bits) {
  using Sort = BlockSort<kThreads, kItems>;
  SIMT_SHARED(typename Sort::Storage, storage);
  unsigned own_keys[kItems];
  int own_values[kItems];
  for (int i = 0; i < kItems; ++i) {
    own_keys[i] = keys[threadIdx.x * kItems + i];
    own_values[i] = values[threadIdx.x * kItems + i];
  }
  Sort::sort(storage, own_keys, own_values, bits);
  for (int i = 0; i < kItems; ++i) {
    keys[threadIdx.x * kItems + i] = own_keys[i];
    values[threadIdx.x * kItems + i] = own_values[i];
  }
}

template <int kThreads, int kItems>
void check_sort(int kinds, int bits) {
  const auto drawn = random_values(static_cast<std::size_t>(kThreads * kItems), 0, kinds - 1);
  std::vector<unsigned> keys(drawn.begin(), drawn.end());
  const auto given = keys;
  std::vector<int> values(keys.size());
  std::iota(values.begin(), values.end(), 0);
  auto order = values;
  const unsigned mask = bits == 32 ? ~0u : (1u << bits) - 1u;
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return (given[a] & mask) < (given[b] & mask); });
  launch(sort_kernel<kThreads, kItems>, dim3(1), dim3(kThreads), 0, keys.data(), values.data(), bits);
  EXPECT_EQ(values, order);
  for (std::size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(keys[i], given[order[i]]);
}

TEST(Collectives, ABlocksSortIsStableAndLooksAtTheLowestBits) {
  check_sort<64, 1>(8, 3);
  check_sort<256, 8>(37, 6);
  check_sort<256, 8>(1000, 4);
  check_sort<32, 3>(2'000'000'000, 32);
}

__global__ void half_a_block_scans_kernel(int* out) {
  using Scan = BlockScan<int, 64>;
  SIMT_SHARED(Scan::Storage, storage);
  if (threadIdx.x < 32) *out = Scan::exclusive_sum(storage, 1, out);
}

TEST(Collectives, TakeTheWholeBlock) {
  int out = 0;
  EXPECT_THAT(thrown([&] { launch(half_a_block_scans_kernel, dim3(1), dim3(64), 0, &out); }),
              HasSubstr("barrier not reached by all"));
}

}  // namespace
}  // namespace simt
