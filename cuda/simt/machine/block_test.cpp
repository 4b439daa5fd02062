#include "cuda/simt/machine/block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "cuda/simt/simt.h"
#include "cuda/simt/thrown.h"

namespace simt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Options shuffled(std::uint64_t seed) { return {.order = Order::shuffled, .seed = seed}; }

// ---- what kernels may do

__global__ void indices_kernel(unsigned* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  __syncthreads();  // the indices must survive a switch
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = 1000 * block + thread;
  out[block * blockDim.x * blockDim.y * blockDim.z + (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x +
      threadIdx.x] += 1;
}

TEST(Launch, CoversGridsAndBlocksOfThreeDimensions) {
  const dim3 grid(3, 2, 2);
  const dim3 block(5, 3, 2);
  std::vector<unsigned> out(12 * 30);
  launch(indices_kernel, grid, block, 0, out.data());
  for (unsigned b = 0; b < 12; ++b)
    for (unsigned t = 0; t < 30; ++t) ASSERT_EQ(out[b * 30 + t], 1000 * b + t + 1);
  EXPECT_EQ(last_launch().blocks, 12u);
  EXPECT_GE(last_launch().switches, 12u * 30u * 2u);
}

__global__ void reverse_kernel(const int* in, int* out) {
  SIMT_DYNAMIC_SHARED(int, tile);
  const unsigned t = threadIdx.x;
  const unsigned n = blockDim.x;
  tile[t] = in[blockIdx.x * n + t];
  __syncthreads();
  out[blockIdx.x * n + t] = tile[n - 1 - t];
}

TEST(Launch, BlocksOfAnySizeInEveryOrderAndWithWorkersAgree) {
  for (const unsigned threads : {1u, 2u, 31u, 32u, 33u, 63u, 100u, 257u, 1000u, 1024u})
    for (const Order order : {Order::ascending, Order::descending, Order::shuffled})
      for (const unsigned workers : {1u, 2u}) {
        const ScopedOptions scope(Options{.order = order, .seed = threads, .workers = workers});
        std::vector<int> in(threads * 3);
        std::iota(in.begin(), in.end(), 0);
        std::vector<int> out(in.size(), -1);
        launch(reverse_kernel, dim3(3), dim3(threads), threads * sizeof(int), in.data(), out.data());
        for (unsigned b = 0; b < 3; ++b)
          for (unsigned t = 0; t < threads; ++t)
            ASSERT_EQ(out[b * threads + t], in[b * threads + threads - 1 - t]) << threads << " threads";
      }
}

__global__ void vote_kernel(int threshold, int* out) {
  const unsigned t = threadIdx.x;
  const int mine = static_cast<int>(t) < threshold ? 1 : 0;
  const int count = __syncthreads_count(mine);
  const int all = __syncthreads_and(mine);
  const int any = __syncthreads_or(mine);
  out[t] = count * 100 + all * 10 + any;
}

TEST(Barriers, CountAndCombinePredicates) {
  for (const int threads : {1, 40, 96})
    for (const int threshold : {0, 1, 39, 40, 96}) {
      std::vector<int> out(threads);
      launch(vote_kernel, dim3(1), dim3(threads), 0, threshold, out.data());
      const int yes = std::min(threads, threshold);
      for (const int v : out) ASSERT_EQ(v, yes * 100 + (yes == threads ? 10 : 0) + (yes > 0 ? 1 : 0));
    }
}

__global__ void poison_kernel(float* out) {
  SIMT_SHARED(float, fixed, 4, 2);
  SIMT_SHARED(float, single);
  SIMT_DYNAMIC_SHARED(float, dynamic);
  out[0] = fixed[3][1];
  out[1] = single;
  out[2] = dynamic[5];
  fixed[3][1] = single = dynamic[5] = 1;
}

TEST(SharedMemory, IsNanInEveryBlockUntilWritten) {
  std::vector<float> out(3, 0.0f);
  launch(poison_kernel, dim3(5), dim3(1), 6 * sizeof(float), out.data());
  for (const float v : out) EXPECT_TRUE(std::isnan(v));
}

template <int N>
__device__ int* array_of() {
  SIMT_SHARED(int, array, N);
  return array;
}

__global__ void arrays_kernel(bool* distinct) {
  int* first = array_of<1>();
  int* second = array_of<2>();
  *distinct = first != second && first == array_of<1>();
}

TEST(SharedMemory, EachDeclarationHasOneArray) {
  bool distinct = false;
  launch(arrays_kernel, dim3(1), dim3(1), 0, &distinct);
  EXPECT_TRUE(distinct);
}

__global__ void too_much_kernel() {
  SIMT_SHARED(char, half, 120 * 1024);
  half[0] = 0;
}

TEST(SharedMemory, IsLimitedToWhatABlockMayHave) {
  EXPECT_THAT(thrown([] { launch(too_much_kernel, dim3(1), dim3(1), 120 * 1024); }),
              HasSubstr("shared array half exceeds the 227 KiB that a block may have"));
}

// ---- what kernels may not do

__global__ void exit_kernel(int* out) {
  if (threadIdx.x == 7) return;
  __syncthreads();
  out[threadIdx.x] = 1;
}

TEST(BarrierMistakes, AThreadThatExitsBeforeIt) {
  std::vector<int> out(64);
  EXPECT_THAT(thrown([&] { launch(exit_kernel, dim3(2), dim3(64), 0, out.data()); }),
              AllOf(HasSubstr("kernel simt::(anonymous namespace)::exit_kernel(int*), block (0,0,0): "),
                    HasSubstr("barrier not reached by all: thread (0,0,0) waits in __syncthreads at "),
                    HasSubstr("block_test.cpp:"), HasSubstr("thread (7,0,0) has exited")));
  const ScopedOptions scope(Options{.allow_early_exit = true});
  launch(exit_kernel, dim3(1), dim3(64), 0, out.data());
  EXPECT_EQ(std::accumulate(out.begin(), out.end(), 0), 63);
}

__global__ void divergent_kernel(int* out) {
  if (threadIdx.x < 32) {
    __syncthreads();
    out[0] = 1;
  } else {
    __syncthreads();
    out[1] = 2;
  }
}

TEST(BarrierMistakes, TwoBarriersForOne) {
  std::vector<int> out(2);
  EXPECT_THAT(thrown([&] { launch(divergent_kernel, dim3(1), dim3(64), 0, out.data()); }),
              AllOf(HasSubstr("divergent barriers: thread (0,0,0) waits in __syncthreads at "),
                    HasSubstr("thread (32,0,0) waits in __syncthreads at ")));
}

__global__ void one_line_kernel() {
  // clang-format off
  // NOLINTNEXTLINE(bugprone-branch-clone): that is the mistake
  if (threadIdx.x < 32) { __syncthreads(); } else { __syncthreads(); }
  // clang-format on
}

TEST(BarrierMistakes, TwoBarriersOnOneLineAreToldApartByColumn) {
  EXPECT_THAT(thrown([] { launch(one_line_kernel, dim3(1), dim3(64), 0); }), HasSubstr("divergent barriers"));
}

__global__ void uneven_loop_kernel() {
  for (unsigned i = 0; i <= threadIdx.x / 32; ++i) __syncthreads();
}

TEST(BarrierMistakes, LoopsOfDifferentLength) {
  EXPECT_THAT(
      thrown([] { launch(uneven_loop_kernel, dim3(1), dim3(64), 0); }),
      AllOf(HasSubstr("barrier not reached by all: thread (32,0,0) waits"), HasSubstr("thread (0,0,0) has exited")));
}

__global__ void spin_kernel(volatile int* flag) {
  while (*flag == 0) __nanosleep(100);
}

TEST(BarrierMistakes, AFlagThatNobodySets) {
  int flag = 0;
  EXPECT_THAT(thrown([&] { launch(spin_kernel, dim3(1), dim3(2), 0, &flag); }),
              AllOf(HasSubstr("deadlock"), HasSubstr("thread (0,0,0) is running (and 1 like it)")));
}

__global__ void handshake_kernel(volatile int* flag, int* out) {
  if (threadIdx.x == 0) {
    while (*flag == 0) __nanosleep(100);
    *out = 1;
  } else {
    *flag = 1;
  }
}

TEST(Barriers, AThreadThatSleepsLetsOthersSetItsFlag) {
  int flag = 0;
  int out = 0;
  launch(handshake_kernel, dim3(1), dim3(2), 0, &flag, &out);
  EXPECT_EQ(out, 1);
}

__global__ void throwing_kernel(int* out) {
  __syncthreads();
  if (threadIdx.x == 3) throw std::runtime_error("from the kernel");
  __syncthreads();
  out[threadIdx.x] = 1;
}

TEST(Errors, LeaveTheLayerReadyForTheNextLaunch) {
  std::vector<int> out(64);
  std::vector<int> in(64);
  std::iota(in.begin(), in.end(), 0);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(thrown([&] { launch(throwing_kernel, dim3(1), dim3(64), 0, out.data()); }), "from the kernel");
    EXPECT_THAT(thrown([&] { launch(exit_kernel, dim3(1), dim3(64), 0, out.data()); }),
                HasSubstr("not reached by all"));
    EXPECT_THAT(thrown([&] { launch(divergent_kernel, dim3(1), dim3(64), 0, out.data()); }), HasSubstr("divergent"));
    const ScopedOptions scope(shuffled(round));
    launch(reverse_kernel, dim3(1), dim3(64), 64 * sizeof(int), in.data(), out.data());
    for (int t = 0; t < 64; ++t) ASSERT_EQ(out[t], 63 - t);
  }
}

TEST(Errors, OfOneWorkerEndTheGrid) {
  const ScopedOptions scope(Options{.workers = 3});
  std::vector<int> out(64);
  EXPECT_THAT(thrown([&] { launch(exit_kernel, dim3(100), dim3(64), 0, out.data()); }),
              HasSubstr("not reached by all"));
}

TEST(Launch, RefusesShapesThatNoDeviceTakes) {
  std::vector<int> out(1);
  const auto refused = [&](dim3 grid, dim3 block, std::size_t shared_bytes) {
    return thrown([&] { launch(exit_kernel, grid, block, shared_bytes, out.data()); });
  };
  EXPECT_THAT(refused(dim3(0), dim3(32), 0), AllOf(HasSubstr("exit_kernel"), HasSubstr("grid (0,1,1), block (32,1,1)"),
                                                   HasSubstr("an extent is zero")));
  EXPECT_THAT(refused(dim3(1), dim3(32, 33), 0), HasSubstr("at most 1024 threads"));
  EXPECT_THAT(refused(dim3(1), dim3(1, 1, 65), 0), HasSubstr("at most 64 threads in z"));
  EXPECT_THAT(refused(dim3(1, 65536), dim3(1), 0), HasSubstr("(2147483647,65535,65535)"));
  EXPECT_THAT(refused(dim3(1), dim3(1), 228 * 1024), HasSubstr("227 KiB"));
}

__global__ void nested_kernel(int* out) { launch(exit_kernel, dim3(1), dim3(1), 0, out); }

TEST(Launch, RefusesKernelsThatLaunchKernels) {
  int out = 0;
  EXPECT_THAT(thrown([&] { launch(nested_kernel, dim3(1), dim3(1), 0, &out); }),
              AllOf(HasSubstr("exit_kernel"), HasSubstr("launched from inside a kernel")));
}

// ---- races show by order

__global__ void race_kernel(int* out) {
  SIMT_SHARED(int, tile, 64);
  tile[threadIdx.x] = static_cast<int>(threadIdx.x);
  out[threadIdx.x] = tile[threadIdx.x ^ 31u];
}

std::vector<int> race(const Options& options) {
  const ScopedOptions scope(options);
  std::vector<int> out(64);
  launch(race_kernel, dim3(1), dim3(64), 0, out.data());
  return out;
}

TEST(Orders, ShowAMissingBarrierAndRepeatForASeed) {
  EXPECT_NE(race({.order = Order::ascending}), race({.order = Order::descending}));
  EXPECT_NE(race({.order = Order::ascending}), race(shuffled(1)));
  EXPECT_NE(race(shuffled(1)), race(shuffled(2)));
  for (const std::uint64_t seed : {0u, 1u, 2u, 12345u}) EXPECT_EQ(race(shuffled(seed)), race(shuffled(seed)));
}

__global__ void ticket_kernel(unsigned* next, unsigned* out) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  out[thread] = atomicAdd(next + blockIdx.x, 1u);
  __syncthreads();
  out[thread] = out[thread] * 100 + atomicAdd(next + blockIdx.x, 1u);
}

TEST(Orders, OfASeedDoNotDependOnTheNumberOfWorkers) {
  std::vector<std::vector<unsigned>> outcomes;
  for (const unsigned workers : {1u, 2u, 4u}) {
    Options options = shuffled(5);
    options.workers = workers;
    const ScopedOptions scope(options);
    std::vector<unsigned> next(8, 0);
    std::vector<unsigned> out(8 * 40);
    launch(ticket_kernel, dim3(8), dim3(40), 0, next.data(), out.data());
    outcomes.push_back(out);
  }
  EXPECT_EQ(outcomes[0], outcomes[1]);
  EXPECT_EQ(outcomes[0], outcomes[2]);
}

TEST(Orders, OptionsAreRestoredByTheirScope) {
  EXPECT_EQ(options().seed, 0u);
  {
    const ScopedOptions scope(shuffled(9));
    EXPECT_EQ(options().seed, 9u);
  }
  EXPECT_EQ(options().seed, 0u);
}

// A bare __shared__ works too.
__global__ void bare_shared_kernel(int* out) {
  __shared__ int tile[32];
  tile[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = tile[31 - threadIdx.x];
}

TEST(SharedMemory, MayBeDeclaredInPlainCuda) {
  std::vector<int> out(32);
  launch(bare_shared_kernel, dim3(2), dim3(32), 0, out.data());
  for (int t = 0; t < 32; ++t) EXPECT_EQ(out[t], 31 - t);
}

}  // namespace
}  // namespace simt
