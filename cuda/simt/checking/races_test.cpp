// Compiled as a checked kernel: see CMakeLists.txt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "cuda/simt/collectives.h"
#include "cuda/simt/simt.h"
#include "cuda/simt/thrown.h"

namespace simt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr unsigned full = 0xFFFFFFFFu;

// ---- shared memory

template <bool with_barrier>
__global__ void exchange_kernel(int* out) {
  SIMT_SHARED(int, tile, 64);
  const unsigned t = threadIdx.x;
  tile[t] = 0;
  __syncthreads();
  tile[t] = static_cast<int>(t);
  if constexpr (with_barrier) __syncthreads();
  if (t < 32) out[t] = tile[63 - t];
}

TEST(Races, ReadAfterWriteNamesBothLines) {
  std::vector<int> out(64);
  const ScopedOptions scope(Options{.order = Order::descending});
  EXPECT_THAT(thrown([&] { launch(exchange_kernel<false>, dim3(1), dim3(64), 0, out.data()); }),
              AllOf(HasSubstr("exchange_kernel<false>"),
                    HasSubstr("block (0,0,0), thread (31,0,0): race: reads offset 128"
                              " of shared array tile at "),
                    HasSubstr("checking/races_test.cpp:29, which thread (32,0,0) writes at "),
                    HasSubstr("checking/races_test.cpp:27 with no barrier between them")));
  launch(exchange_kernel<true>, dim3(1), dim3(64), 0, out.data());
}

TEST(Races, AreFoundInEveryOrder) {
  std::vector<int> out(64);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const ScopedOptions scope(Options{.order = Order::shuffled, .seed = seed});
    const std::string message = thrown([&] { launch(exchange_kernel<false>, dim3(1), dim3(64), 0, out.data()); });
    EXPECT_TRUE(message.find("race: ") != std::string::npos || message.find("nothing has written") != std::string::npos)
        << message;
  }
}

__global__ void reuse_kernel(int* out) {
  SIMT_SHARED(int, tile, 64);
  tile[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = tile[0];
  if (threadIdx.x == 63) tile[0] = 2;  // the others may not have read yet
}

TEST(Races, WriteAfterRead) {
  std::vector<int> out(64);
  EXPECT_THAT(thrown([&] { launch(reuse_kernel, dim3(1), dim3(64), 0, out.data()); }),
              AllOf(HasSubstr("thread (63,0,0): race: writes offset 0 of shared array tile at "),
                    HasSubstr("which thread (0,0,0) reads at ")));
}

__global__ void same_place_kernel() {
  SIMT_SHARED(int, last);
  last = static_cast<int>(threadIdx.x);
}

TEST(Races, WriteAfterWrite) {
  EXPECT_THAT(thrown([] { launch(same_place_kernel, dim3(1), dim3(32), 0); }),
              AllOf(HasSubstr("thread (1,0,0): race: writes offset 0 of shared array last"),
                    HasSubstr("which thread (0,0,0) writes")));
}

__global__ void dynamic_kernel(float* out) {
  SIMT_DYNAMIC_SHARED(float, sums);
  sums[threadIdx.x] = 1;
  if (threadIdx.x == 0) {
    for (unsigned i = 1; i < blockDim.x; ++i) sums[0] += sums[i];
    *out = sums[0];
  }
}

TEST(Races, OnDynamicSharedMemory) {
  float out = 0;
  const ScopedOptions scope(Options{.order = Order::descending});
  EXPECT_THAT(
      thrown([&] { launch(dynamic_kernel, dim3(1), dim3(32), 32 * sizeof(float), &out); }),
      AllOf(HasSubstr("race: reads offset 4 of dynamic shared memory"), HasSubstr("which thread (1,0,0) writes")));
}

// ---- what __syncwarp orders and shuffles do not

enum class Between { nothing, shuffle, warp_barrier, half_warp_barrier };

template <Between between>
__global__ void neighbours_kernel(int* out) {
  SIMT_SHARED(int, tile, 64);
  const unsigned t = threadIdx.x;
  tile[t] = static_cast<int>(t);
  if constexpr (between == Between::shuffle) __shfl_sync(full, 0, 0);
  if constexpr (between == Between::warp_barrier) __syncwarp();
  if constexpr (between == Between::half_warp_barrier) __syncwarp(t % 32 < 16 ? 0x0000FFFFu : 0xFFFF0000u);
  out[t] = tile[t ^ 16u];
}

TEST(Races, WithinAWarpOnlySyncwarpOrders) {
  std::vector<int> out(64);
  const auto run = [&](auto kernel) { return thrown([&] { launch(kernel, dim3(1), dim3(64), 0, out.data()); }); };
  const ScopedOptions scope(Options{.order = Order::descending});
  EXPECT_THAT(run(neighbours_kernel<Between::nothing>), HasSubstr("race"));
  EXPECT_THAT(run(neighbours_kernel<Between::shuffle>), HasSubstr("race"));
  EXPECT_THAT(run(neighbours_kernel<Between::half_warp_barrier>), HasSubstr("race"));
  EXPECT_EQ(run(neighbours_kernel<Between::warp_barrier>), "(nothing)");
}

__global__ void across_warps_kernel(int* out) {
  SIMT_SHARED(int, tile, 64);
  tile[threadIdx.x] = 1;
  __syncwarp();
  out[threadIdx.x] = tile[threadIdx.x ^ 32u];
}

TEST(Races, SyncwarpDoesNotOrderWarps) {
  std::vector<int> out(64);
  const ScopedOptions scope(Options{.order = Order::descending});
  EXPECT_THAT(thrown([&] { launch(across_warps_kernel, dim3(1), dim3(64), 0, out.data()); }), HasSubstr("race"));
}

__global__ void chain_kernel(int* out) {
  SIMT_SHARED(int, value);
  const unsigned lane = threadIdx.x;
  if (lane == 0) value = 5;
  if (lane < 2) __syncwarp(0x3u);
  if (lane >= 1 && lane < 3) __syncwarp(0x6u);
  if (lane == 2) *out = value;  // 0 before 1 before 2
}

TEST(Races, OrderIsPassedOnFromLaneToLane) {
  int out = 0;
  launch(chain_kernel, dim3(1), dim3(32), 0, &out);
  EXPECT_EQ(out, 5);
}

// ---- neighbours, atomics, copies

__global__ void bytes_kernel(unsigned char* out) {
  SIMT_SHARED(unsigned char, bytes, 64);
  bytes[threadIdx.x] = 1;  // four threads to a word
  __syncthreads();
  out[threadIdx.x] = bytes[63 - threadIdx.x];
}

TEST(Races, NeighbouringBytesAreNoRace) {
  std::vector<unsigned char> out(64);
  EXPECT_EQ(thrown([&] { launch(bytes_kernel, dim3(1), dim3(64), 0, out.data()); }), "(nothing)");
}

template <bool plain_read>
__global__ void counter_kernel(int* out) {
  SIMT_SHARED(int, counter);
  if (threadIdx.x == 0) counter = 0;
  __syncthreads();
  atomicAdd(&counter, 1);
  if constexpr (plain_read) {
    out[threadIdx.x] = counter;
  } else {
    __syncthreads();
    out[threadIdx.x] = counter;
  }
}

TEST(Races, AtomicsRaceWithPlainAccessesOnly) {
  std::vector<int> out(64);
  EXPECT_EQ(thrown([&] { launch(counter_kernel<false>, dim3(1), dim3(64), 0, out.data()); }), "(nothing)");
  EXPECT_EQ(out[5], 64);
  EXPECT_THAT(thrown([&] { launch(counter_kernel<true>, dim3(1), dim3(64), 0, out.data()); }),
              AllOf(HasSubstr("race: atomically updates offset 0 of shared array counter at "),
                    HasSubstr("checking/races_test.cpp:"), HasSubstr("which thread (0,0,0) reads at ")));
}

template <bool with_barrier>
__global__ void copy_kernel(const int* in, int* out) {
  SIMT_SHARED(int, tile, 64);
  tile[threadIdx.x] = 0;
  __syncthreads();
  copy_async<4>(tile + threadIdx.x, in + threadIdx.x);
  commit_copies();
  wait_for_copies<0>();
  if constexpr (with_barrier) __syncthreads();
  if (threadIdx.x < 32) out[threadIdx.x] = tile[63 - threadIdx.x];
}

TEST(Races, WaitingForCopiesIsNoBarrier) {
  const std::vector<int> in(64, 3);
  std::vector<int> out(64);
  EXPECT_EQ(thrown([&] { launch(copy_kernel<true>, dim3(1), dim3(64), 0, in.data(), out.data()); }), "(nothing)");
  const ScopedOptions scope(Options{.order = Order::descending});
  EXPECT_THAT(
      thrown([&] { launch(copy_kernel<false>, dim3(1), dim3(64), 0, in.data(), out.data()); }),
      AllOf(HasSubstr("race: reads offset 128 of shared array tile"), HasSubstr("which thread (32,0,0) writes")));
}

__global__ void early_copy_kernel(const int* in, int* out) {
  SIMT_SHARED(int, tile, 32);
  tile[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = tile[0];
  if (threadIdx.x == 31) copy_async<4>(tile, in);  // the others may not have read yet
}

TEST(Races, CopiesThatStartTooEarly) {
  const std::vector<int> in(32, 3);
  std::vector<int> out(32);
  EXPECT_THAT(thrown([&] { launch(early_copy_kernel, dim3(1), dim3(32), 0, in.data(), out.data()); }),
              AllOf(HasSubstr("thread (31,0,0): race: starts a copy to offset 0 of shared array tile at "),
                    HasSubstr("checking/races_test.cpp:"), HasSubstr("which thread (0,0,0) reads at ")));
}

// ---- global memory

__global__ void overlap_kernel(float* out) { out[blockIdx.x + threadIdx.x] = 1; }

TEST(Races, BetweenBlocksOnGlobalMemory) {
  std::vector<float> out(64);
  EXPECT_THAT(thrown([&] { launch(overlap_kernel, dim3(2), dim3(32), 0, out.data()); }),
              AllOf(HasSubstr("block (1,0,0), thread (0,0,0): race: writes address 0x"),
                    HasSubstr("which thread (1,0,0) of block (0,0,0) writes at "),
                    HasSubstr("with no launch or fence and atomic between them")));
  for (int i = 0; i < 3; ++i) launch(overlap_kernel, dim3(1), dim3(32), 0, out.data());  // launches are ordered
}

/// The block that finishes last adds up what all have written.
template <bool with_fence>
__global__ void last_block_kernel(float* parts, unsigned* finished, float* total) {
  if (threadIdx.x != 0) return;
  parts[blockIdx.x] = static_cast<float>(blockIdx.x);
  if constexpr (with_fence) __threadfence();
  if (atomicAdd(finished, 1u) != gridDim.x - 1) return;
  float sum = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) sum += parts[i];
  *total = sum;
}

TEST(Races, BlocksHandOverByFenceAndAtomic) {
  std::vector<float> parts(8);
  unsigned finished = 0;
  float total = 0;
  launch(last_block_kernel<true>, dim3(8), dim3(32), 0, parts.data(), &finished, &total);
  EXPECT_EQ(total, 28.0f);
  finished = 0;
  EXPECT_THAT(thrown([&] { launch(last_block_kernel<false>, dim3(8), dim3(32), 0, parts.data(), &finished, &total); }),
              HasSubstr("race: reads"));
}

// ---- collectives

template <bool with_barrier>
__global__ void two_scans_kernel(int* out) {
  using Scan = BlockScan<int, 64>;
  SIMT_SHARED(Scan::Storage, storage);
  int total = 0;
  const int once = Scan::exclusive_sum(storage, 1, &total);
  if constexpr (with_barrier) __syncthreads();
  out[threadIdx.x] = Scan::exclusive_sum(storage, once, &total);
}

template <bool with_barrier>
__global__ void two_sorts_kernel(int* out) {
  using Sort = BlockSort<64, 1>;
  SIMT_SHARED(Sort::Storage, storage);
  unsigned keys[1] = {63 - threadIdx.x};
  int values[1] = {static_cast<int>(threadIdx.x)};
  Sort::sort(storage, keys, values, 6);
  if constexpr (with_barrier) __syncthreads();
  keys[0] = static_cast<unsigned>(values[0]);
  Sort::sort(storage, keys, values, 6);
  out[threadIdx.x] = values[0];
}

TEST(Races, StorageOfACollectiveInUse) {
  std::vector<int> out(64);
  const auto message = [&](auto* kernel) { return thrown([&] { launch(kernel, dim3(1), dim3(64), 0, out.data()); }); };
  EXPECT_THAT(message(two_scans_kernel<false>), HasSubstr("of shared array storage"));
  EXPECT_EQ(message(two_scans_kernel<true>), "(nothing)");
  EXPECT_EQ(out[3], 3);  // 0 + 1 + 2
  EXPECT_THAT(message(two_sorts_kernel<false>), HasSubstr("of shared array storage"));
  EXPECT_EQ(message(two_sorts_kernel<true>), "(nothing)");
  EXPECT_EQ(out[3], 3);
}

// ---- nothing is left behind

TEST(Races, ErrorsLeaveTheLayerReady) {
  std::vector<int> out(64);
  for (int round = 0; round < 3; ++round) {
    EXPECT_THAT(thrown([&] { launch(reuse_kernel, dim3(1), dim3(64), 0, out.data()); }), HasSubstr("race"));
    launch(exchange_kernel<true>, dim3(1), dim3(64), 0, out.data());
  }
}

TEST(Races, CheckingCanBeTurnedOff) {
  std::vector<int> out(64);
  const ScopedOptions scope(Options{.check_accesses = false});
  launch(reuse_kernel, dim3(1), dim3(64), 0, out.data());
}

}  // namespace
}  // namespace simt
