#include "cuda/simt/warp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cuda/simt/simt.h"
#include "cuda/simt/thrown.h"

namespace simt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr unsigned full = 0xFFFFFFFFu;

enum class Form { index, up, down, exclusive_or };

__global__ void shuffle_kernel(Form form, int operand, int width, double* out) {
  const unsigned t = threadIdx.x;
  const double value = 1000.0 + t;
  const auto delta = static_cast<unsigned>(operand);
  switch (form) {
    case Form::index:
      out[t] = __shfl_sync(full, value, operand, width);
      break;
    case Form::up:
      out[t] = __shfl_up_sync(full, value, delta, width);
      break;
    case Form::down:
      out[t] = __shfl_down_sync(full, value, delta, width);
      break;
    case Form::exclusive_or:
      out[t] = __shfl_xor_sync(full, value, operand, width);
      break;
  }
}

/// The CUDA programming guide's words, lane by lane.
int source_of(Form form, int lane, int operand, int width) {
  const int segment = lane / width;
  switch (form) {
    case Form::index:
      return segment * width + operand % width;
    case Form::up:
      return (lane - operand) >= segment * width ? lane - operand : lane;
    case Form::down:
      return (lane + operand) / width == segment ? lane + operand : lane;
    case Form::exclusive_or:
      return (lane ^ operand) / width <= segment ? lane ^ operand : lane;
  }
  return lane;
}

TEST(Shuffle, EveryFormOperandAndWidthReadsTheLaneThatTheGuideNames) {
  for (const Form form : {Form::index, Form::up, Form::down, Form::exclusive_or})
    for (const int width : {1, 2, 4, 8, 16, 32})
      for (int operand = 0; operand < 32; ++operand) {
        std::vector<double> out(64);
        launch(shuffle_kernel, dim3(1), dim3(64), 0, form, operand, width, out.data());
        for (int t = 0; t < 64; ++t)
          ASSERT_EQ(out[t], 1000.0 + t / 32 * 32 + source_of(form, t % 32, operand, width))
              << "form " << static_cast<int>(form) << ", operand " << operand << ", width " << width << ", thread "
              << t;
      }
}

template <class T>
__global__ void rotate_kernel(const T* in, T* out) {
  out[threadIdx.x] = __shfl_sync(full, in[threadIdx.x], static_cast<int>(threadIdx.x) + 1);
}

template <class T>
void expect_rotated(const std::vector<T>& in) {
  std::vector<T> out(in.size());
  launch(rotate_kernel<T>, dim3(1), dim3(32), 0, in.data(), out.data());
  for (std::size_t i = 0; i < in.size(); ++i)
    EXPECT_EQ(
        std::memcmp(static_cast<const void*>(&out[i]), static_cast<const void*>(&in[(i + 1) % in.size()]), sizeof(T)),
        0)
        << "lane " << i;
}

TEST(Shuffle, CarriesEveryTypeOfUpToEightBytes) {
  std::vector<int> integers(32);
  std::vector<unsigned long long> wide(32);
  std::vector<float> floats(32);
  std::vector<__nv_bfloat16> shorts(32);
  for (int i = 0; i < 32; ++i) {
    integers[i] = -i;
    wide[i] = ~0ULL - i;
    floats[i] = 0.5f * static_cast<float>(i);
    shorts[i] = __float2bfloat16(floats[i]);
  }
  expect_rotated(integers);
  expect_rotated(wide);
  expect_rotated(floats);
  expect_rotated(shorts);
}

__global__ void vote_kernel(unsigned pattern, unsigned* ballots, int* any, int* all) {
  const unsigned t = threadIdx.x;
  const int mine = static_cast<int>(pattern >> (t % 32) & 1u);
  ballots[t] = __ballot_sync(full, mine);
  any[t] = __any_sync(full, mine);
  all[t] = __all_sync(full, mine);
}

TEST(Votes, CountTheLanesThatExist) {
  for (const int threads : {1, 5, 32, 33, 70, 100})
    for (const unsigned pattern : {0u, 1u, 0x80000001u, 0x12345678u, full}) {
      std::vector<unsigned> ballots(threads);
      std::vector<int> any(threads);
      std::vector<int> all(threads);
      launch(vote_kernel, dim3(1), dim3(threads), 0, pattern, ballots.data(), any.data(), all.data());
      for (int t = 0; t < threads; ++t) {
        const int lanes = std::min(32, threads - t / 32 * 32);
        const unsigned existing = lanes == 32 ? full : (1u << lanes) - 1;
        ASSERT_EQ(ballots[t], pattern & existing) << threads << " threads, thread " << t;
        ASSERT_EQ(any[t], (pattern & existing) != 0 ? 1 : 0);
        ASSERT_EQ(all[t], (pattern & existing) == existing ? 1 : 0);
      }
    }
}

__global__ void half_warps_kernel(int* out) {
  const unsigned lane = threadIdx.x % 32;
  if (lane < 16) {
    int v = static_cast<int>(lane);
    for (int offset = 8; offset > 0; offset >>= 1) v += __shfl_xor_sync(0x0000FFFFu, v, offset, 16);
    out[lane] = v;
  } else {
    out[lane] = static_cast<int>(__ballot_sync(0xFFFF0000u, lane % 2));
  }
  __syncwarp();
  out[lane] += __shfl_sync(full, static_cast<int>(lane), 3);
}

TEST(Masks, PartsOfAWarpWorkApartAndMeetAgain) {
  for (const Order order : {Order::ascending, Order::descending, Order::shuffled}) {
    const ScopedOptions scope(Options{.order = order});
    std::vector<int> out(32);
    launch(half_warps_kernel, dim3(1), dim3(32), 0, out.data());
    for (int lane = 0; lane < 16; ++lane) EXPECT_EQ(out[lane], 120 + 3);
    for (int lane = 16; lane < 32; ++lane) EXPECT_EQ(out[lane], static_cast<int>(0xAAAA0000u) + 3);
  }
}

__global__ void reduce_kernel(const int* in, int* out) {
  const unsigned t = threadIdx.x;
  const auto bits = static_cast<unsigned>(in[t]);
  out[t] = __reduce_add_sync(full, in[t]);
  out[32 + t] = __reduce_min_sync(full, in[t]);
  out[64 + t] = __reduce_max_sync(full, in[t]);
  out[96 + t] = static_cast<int>(__reduce_or_sync(full, bits));
  out[128 + t] = static_cast<int>(__reduce_and_sync(full, bits));
  out[160 + t] = static_cast<int>(__reduce_xor_sync(full, bits));
  out[192 + t] = static_cast<int>(__reduce_max_sync(full, bits));
  out[224 + t] = static_cast<int>(__match_any_sync(full, in[t] % 3));
}

TEST(Reductions, GiveAllLanesTheSame) {
  std::vector<int> in(32);
  for (int i = 0; i < 32; ++i) in[i] = (i * 37 % 101) - 50;
  int sum = 0;
  unsigned any = 0;
  unsigned all = full;
  unsigned odd = 0;
  unsigned largest = 0;
  for (const int v : in) {
    const auto bits = static_cast<unsigned>(v);
    sum += v;
    any |= bits;
    all &= bits;
    odd ^= bits;
    largest = std::max(largest, bits);
  }
  std::vector<int> out(256);
  launch(reduce_kernel, dim3(1), dim3(32), 0, in.data(), out.data());
  for (int t = 0; t < 32; ++t) {
    ASSERT_EQ(out[t], sum);
    ASSERT_EQ(out[32 + t], *std::min_element(in.begin(), in.end()));
    ASSERT_EQ(out[64 + t], *std::max_element(in.begin(), in.end()));
    ASSERT_EQ(out[96 + t], static_cast<int>(any));
    ASSERT_EQ(out[128 + t], static_cast<int>(all));
    ASSERT_EQ(out[160 + t], static_cast<int>(odd));
    ASSERT_EQ(static_cast<unsigned>(out[192 + t]), largest);
    unsigned same = 0;
    for (int other = 0; other < 32; ++other) same |= (in[other] % 3 == in[t] % 3 ? 1u : 0u) << other;
    ASSERT_EQ(static_cast<unsigned>(out[224 + t]), same);
  }
}

__global__ void mask_without_caller_kernel(int* out) { out[threadIdx.x] = __shfl_sync(0x0000FFFFu, 1, 0); }

TEST(WarpMistakes, MaskWithoutTheCaller) {
  std::vector<int> out(32);
  EXPECT_THAT(thrown([&] { launch(mask_without_caller_kernel, dim3(1), dim3(32), 0, out.data()); }),
              AllOf(HasSubstr("mask_without_caller_kernel"), HasSubstr("block (0,0,0), thread (16,0,0)"),
                    HasSubstr("__shfl_sync"), HasSubstr("warp_test.cpp:"),
                    HasSubstr("mask 0x0000ffff leaves out the caller, lane 16")));
}

__global__ void exited_lane_kernel(float* out) {
  if (threadIdx.x == 35) return;
  out[threadIdx.x] = __shfl_xor_sync(full, 1.0f, 1);
}

TEST(WarpMistakes, MaskThatNamesALaneThatHasExited) {
  std::vector<float> out(64);
  for (const Order order : {Order::ascending, Order::descending, Order::shuffled}) {
    const ScopedOptions scope(Options{.order = order});
    EXPECT_THAT(thrown([&] { launch(exited_lane_kernel, dim3(1), dim3(64), 0, out.data()); }),
                AllOf(HasSubstr("exited_lane_kernel"), HasSubstr("__shfl_xor_sync"), HasSubstr("warp_test.cpp:"),
                      HasSubstr("mask 0xffffffff names thread (35,0,0), which has exited")))
        << static_cast<int>(order);
  }
}

__global__ void source_outside_mask_kernel(int* out) {
  if (threadIdx.x < 8) out[threadIdx.x] = __shfl_down_sync(0xFFu, 1, 4);
}

TEST(WarpMistakes, ValueFromALaneOutsideTheMask) {
  std::vector<int> out(32);
  EXPECT_THAT(thrown([&] { launch(source_outside_mask_kernel, dim3(1), dim3(32), 0, out.data()); }),
              AllOf(HasSubstr("thread (4,0,0): __shfl_down_sync"), HasSubstr("reads lane 8"),
                    HasSubstr("not among the lanes 0x000000ff")));
}

TEST(WarpMistakes, ValueFromALaneThatTheBlockDoesNotHave) {
  std::vector<double> out(48);
  EXPECT_THAT(thrown([&] { launch(shuffle_kernel, dim3(1), dim3(48), 0, Form::exclusive_or, 16, 32, out.data()); }),
              AllOf(HasSubstr("thread (32,0,0)"), HasSubstr("reads lane 16"), HasSubstr("0x0000ffff")));
}

__global__ void divergent_kernel(int* out) {
  if (threadIdx.x % 2 == 0) {
    out[threadIdx.x] = __shfl_xor_sync(full, 1, 2);
  } else {
    out[threadIdx.x] = __shfl_xor_sync(full, 2, 2);
  }
}

TEST(WarpMistakes, BranchesOfAWarpAtDifferentShuffles) {
  std::vector<int> out(32);
  const std::string message = thrown([&] { launch(divergent_kernel, dim3(1), dim3(32), 0, out.data()); });
  EXPECT_THAT(message, AllOf(HasSubstr("divergent warp operations"), HasSubstr("thread (31,0,0) waits in"),
                             HasSubstr("thread (0,0,0) waits in"), HasSubstr("with mask 0xffffffff")));
}

__global__ void missing_lanes_kernel(int* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_xor_sync(full, 1, 1);
  __syncthreads();
}

TEST(WarpMistakes, HalfAWarpWaitsForTheOther) {
  std::vector<int> out(32);
  EXPECT_THAT(thrown([&] { launch(missing_lanes_kernel, dim3(1), dim3(32), 0, out.data()); }),
              AllOf(HasSubstr("deadlock: thread (0,0,0) waits in __shfl_xor_sync at"),
                    HasSubstr("with mask 0xffffffff (and 15 like it)"),
                    HasSubstr("thread (16,0,0) waits in __syncthreads at"), HasSubstr("(and 15 like it)")));
}

TEST(WarpMistakes, WidthThatIsNoPowerOfTwo) {
  std::vector<double> out(32);
  EXPECT_THAT(thrown([&] { launch(shuffle_kernel, dim3(1), dim3(32), 0, Form::down, 1, 12, out.data()); }),
              HasSubstr("width 12 is not 1, 2, 4, 8, 16 or 32"));
}

TEST(Warp, OperationsOutsideAKernelAreRefused) {
  EXPECT_THAT(thrown([] { __syncwarp(); }), HasSubstr("__syncwarp outside a kernel"));
}

}  // namespace
}  // namespace simt
