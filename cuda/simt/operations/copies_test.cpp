#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "cuda/simt/simt.h"
#include "cuda/simt/thrown.h"

namespace simt {
namespace {

using ::testing::HasSubstr;

/// out[0 … 3]: what a thread reads before and after waiting for its two groups of copies.
template <bool wait_for_both>
__global__ void two_groups_kernel(const float* in, float* out) {
  SIMT_SHARED(float, first, 4);
  SIMT_SHARED(float, second, 4);
  copy_async<16>(first, in);
  commit_copies();
  copy_async_or_zero<8>(second, in + 4, true);
  copy_async_or_zero<8>(second + 2, nullptr, false);
  commit_copies();
  if constexpr (wait_for_both) {
    wait_for_copies<0>();
  } else {
    wait_for_copies<1>();
  }
  for (int i = 0; i < 4; ++i) {
    out[i] = first[i];
    out[4 + i] = second[i];
  }
}

TEST(Copies, ArriveWhenTheirGroupIsWaitedFor) {
  alignas(16) float in[8];
  std::iota(in, in + 8, 1.0f);
  std::vector<float> out(8);
  launch(two_groups_kernel<true>, dim3(1), dim3(1), 0, static_cast<const float*>(in), out.data());
  EXPECT_EQ(out, (std::vector<float>{1, 2, 3, 4, 5, 6, 0, 0}));
  launch(two_groups_kernel<false>, dim3(1), dim3(1), 0, static_cast<const float*>(in), out.data());
  EXPECT_EQ(std::vector<float>(out.begin(), out.begin() + 4), (std::vector<float>{1, 2, 3, 4}));
  for (int i = 4; i < 8; ++i) EXPECT_TRUE(std::isnan(out[i])) << "the second group was not waited for";
}

__global__ void uncommitted_kernel(const float* in, float* out) {
  SIMT_SHARED(float, tile, 1);
  copy_async<4>(tile, in);
  wait_for_copies<0>();
  out[0] = tile[0];
}

TEST(Copies, OutsideOfAGroupAreNotWaitedFor) {
  const float in = 1;
  float out = 0;
  launch(uncommitted_kernel, dim3(1), dim3(1), 0, &in, &out);
  EXPECT_TRUE(std::isnan(out));
}

__global__ void stale_kernel(const float* in, float* out) {
  SIMT_SHARED(float, tile, 1);
  tile[0] = 7;
  copy_async<4>(tile, in);
  out[0] = tile[0];
}

TEST(Copies, LeaveNothingOfWhatWasThere) {
  const float in = 1;
  float out = 0;
  launch(stale_kernel, dim3(1), dim3(1), 0, &in, &out);
  EXPECT_TRUE(std::isnan(out));
}

/// Tiles of 32 floats stream through a ring of three.
__global__ void pipeline_kernel(const float* in, float* out, int tiles) {
  SIMT_SHARED(float, ring, 3, 32);
  const int t = static_cast<int>(threadIdx.x);
  for (int i = 0; i < 2; ++i) {
    if (i < tiles) copy_async<4>(&ring[i][t], in + i * 32 + t);
    commit_copies();
  }
  for (int i = 0; i < tiles; ++i) {
    wait_for_copies<1>();
    __syncthreads();
    if (i + 2 < tiles) copy_async<4>(&ring[(i + 2) % 3][t], in + (i + 2) * 32 + t);
    commit_copies();
    out[i * 32 + t] = ring[i % 3][31 - t];
  }
}

TEST(Copies, RunAheadInAPipeline) {
  for (const int tiles : {1, 2, 3, 10}) {
    std::vector<float> in(tiles * 32);
    std::iota(in.begin(), in.end(), 0.0f);
    std::vector<float> out(in.size());
    launch(pipeline_kernel, dim3(1), dim3(32), 0, in.data(), out.data(), tiles);
    for (int i = 0; i < tiles * 32; ++i) ASSERT_EQ(out[i], in[i / 32 * 32 + 31 - i % 32]);
  }
}

__global__ void bad_copy_kernel(const char* from, int offset, bool into_global) {
  SIMT_SHARED(float4, tile, 4);
  char* bytes = reinterpret_cast<char*>(tile);
  copy_async<16>(into_global ? const_cast<char*>(from) : bytes, from + offset);
}

TEST(Copies, NeedAlignedAddressesAndSharedMemory) {
  alignas(16) char bytes[64] = {};
  const char* from = bytes;
  EXPECT_THAT(thrown([&] { launch(bad_copy_kernel, dim3(1), dim3(1), 0, from, 8, false); }),
              HasSubstr("both must be multiples of 16"));
  EXPECT_THAT(thrown([&] { launch(bad_copy_kernel, dim3(1), dim3(1), 0, from, 16, true); }),
              HasSubstr("is not in the block's shared memory"));
}

}  // namespace
}  // namespace simt
