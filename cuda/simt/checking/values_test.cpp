// Compiled as a checked kernel: see CMakeLists.txt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "cuda/simt/global_memory.h"
#include "cuda/simt/mma.h"
#include "cuda/simt/simt.h"
#include "cuda/simt/thrown.h"

namespace simt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Named global memory of `count` floats, written by the host where asked for.
std::unique_ptr<float, decltype(&memory::release)> floats(std::size_t count, const char* name, bool written) {
  auto* const values = static_cast<float*>(memory::allocate(count * sizeof(float), name));
  if (written) {
    std::memset(values, 0, count * sizeof(float));
    memory::mark_written(values, count * sizeof(float));
  }
  return {values, &memory::release};
}

// ---- bounds

__global__ void shared_bounds_kernel(int index, float* out) {
  SIMT_SHARED(float, before, 8);
  SIMT_SHARED(float, tile, 64);
  before[threadIdx.x % 8] = 0;
  tile[index] = 1;
  *out = 2;
}

std::string shared_bounds(int index) {
  float out = 0;
  return thrown([&] { launch(shared_bounds_kernel, dim3(1), dim3(1), 16, index, &out); });
}

TEST(Bounds, OfSharedArrays) {
  EXPECT_EQ(shared_bounds(0), "(nothing)");
  EXPECT_EQ(shared_bounds(63), "(nothing)");
  EXPECT_THAT(shared_bounds(64), AllOf(HasSubstr("shared_bounds_kernel"),
                                       HasSubstr("block (0,0,0), thread (0,0,0): out of bounds: writes 4 "
                                                 "bytes at offset 256 of shared array tile (256 bytes) at "),
                                       HasSubstr("checking/values_test.cpp:36")));
  EXPECT_THAT(shared_bounds(-1), HasSubstr("out of bounds"));
}

__global__ void dynamic_bounds_kernel(unsigned index) {
  SIMT_DYNAMIC_SHARED(float4, tile);
  tile[index] = float4{1, 2, 3, 4};
}

TEST(Bounds, OfDynamicSharedMemory) {
  EXPECT_EQ(thrown([] { launch(dynamic_bounds_kernel, dim3(1), dim3(1), 64, 3u); }), "(nothing)");
  EXPECT_THAT(thrown([] { launch(dynamic_bounds_kernel, dim3(1), dim3(1), 72, 4u); }),
              AllOf(HasSubstr("out of bounds: writes"), HasSubstr("of dynamic shared memory (72 bytes)")));
}

__global__ void global_kernel(const float* in, float* out, int offset) {
  out[threadIdx.x] = in[static_cast<int>(threadIdx.x) + offset];
}

std::string global(const float* in, float* out, int offset) {
  return thrown([&] { launch(global_kernel, dim3(1), dim3(32), 0, in, out, offset); });
}

TEST(Bounds, OfNamedGlobalMemory) {
  const auto in = floats(32, "in", true);
  const auto out = floats(32, "out", false);
  const auto small = floats(31, "small", false);
  EXPECT_EQ(global(in.get(), out.get(), 0), "(nothing)");
  EXPECT_THAT(
      global(in.get(), out.get(), 1),
      AllOf(HasSubstr("thread (31,0,0): out of bounds: reads 4 bytes at offset 128 of global memory in (128 bytes)"),
            HasSubstr("checking/values_test.cpp:")));
  EXPECT_THAT(global(in.get(), out.get(), -1),
              HasSubstr("thread (0,0,0): out of bounds: reads 4 bytes at offset -4 of"));
  EXPECT_THAT(global(in.get(), small.get(), 0), HasSubstr("writes 4 bytes at offset 124 of global memory small"));
}

__device__ void pass_a_local(int** slot) {
  int local[2] = {1, 2};
  *slot = local;
  __syncthreads();
  if (threadIdx.x == 1) **slot = 3;
  __syncthreads();
}

__global__ void local_kernel(int** slots) { pass_a_local(slots + threadIdx.x / 2); }

TEST(Bounds, LocalVariablesBelongToTheirThread) {
  int* slot = nullptr;
  const ScopedOptions scope(Options{.order = Order::descending});
  EXPECT_THAT(
      thrown([&] { launch(local_kernel, dim3(1), dim3(2), 0, &slot); }),
      ::testing::AnyOf(HasSubstr("touches a local variable of thread (0,0,0)"), HasSubstr("race: writes address")));
}

// ---- values

__global__ void unwritten_shared_kernel(float* out) {
  SIMT_SHARED(float, tile, 33);
  tile[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x + 1];
}

TEST(Values, OfSharedMemoryThatNothingWrote) {
  std::vector<float> out(32);
  EXPECT_THAT(
      thrown([&] { launch(unwritten_shared_kernel, dim3(1), dim3(32), 0, out.data()); }),
      AllOf(HasSubstr("thread (31,0,0): nothing has written what it reads: reads 4 bytes at offset 128 of shared "
                      "array tile (132 bytes) at "),
            HasSubstr("checking/values_test.cpp:")));
}

__global__ void left_over_kernel(float* out) {
  SIMT_SHARED(float, tile, 1);
  if (blockIdx.x == 0) tile[0] = 1;
  out[blockIdx.x] = tile[0];
}

TEST(Values, OfSharedMemoryThatAnotherBlockWrote) {
  std::vector<float> out(2);
  EXPECT_THAT(thrown([&] { launch(left_over_kernel, dim3(2), dim3(1), 0, out.data()); }),
              HasSubstr("block (1,0,0), thread (0,0,0): nothing has written what it reads"));
}

__global__ void half_written_kernel(float* out) {
  SIMT_SHARED(__nv_bfloat16, pair, 2);
  pair[0] = __float2bfloat16(1.0f);
  *out = __bfloat162float(pair[1]);
}

TEST(Values, AreFollowedByTheByte) {
  float out = 0;
  EXPECT_THAT(thrown([&] { launch(half_written_kernel, dim3(1), dim3(1), 0, &out); }),
              HasSubstr("reads 2 bytes at offset 2 of shared array pair"));
}

TEST(Values, OfGlobalMemoryThatNothingWrote) {
  const auto in = floats(40, "hidden state", false);
  const auto out = floats(32, "out", false);
  memory::mark_written(in.get(), 31 * sizeof(float));
  EXPECT_THAT(
      global(in.get(), out.get(), 0),
      HasSubstr("thread (31,0,0): nothing has written what it reads: reads 4 bytes at offset 124 of global memory "
                "hidden state (160 bytes)"));
  memory::mark_written(in.get() + 31, sizeof(float));
  EXPECT_EQ(global(in.get(), out.get(), 0), "(nothing)");
  EXPECT_EQ(global(out.get(), in.get(), 0), "(nothing)") << "kernels' writes count";
}

__global__ void unwaited_kernel(const float* in, float* out) {
  SIMT_SHARED(float, tile, 4);
  tile[0] = 7;
  copy_async<16>(tile, in);
  commit_copies();
  *out = tile[0];
}

TEST(Values, OfACopyThatWasNotWaitedFor) {
  alignas(16) const float in[4] = {1, 2, 3, 4};
  const float* from = in;
  float out = 0;
  EXPECT_THAT(thrown([&] { launch(unwaited_kernel, dim3(1), dim3(1), 0, from, &out); }),
              HasSubstr("nothing has written what it reads: reads 4 bytes at offset 0 of shared array tile"));
}

__global__ void matrices_kernel(unsigned* out) {
  SIMT_SHARED(float4, tile, 32);
  if (threadIdx.x != 9) tile[threadIdx.x] = float4{0, 0, 0, 0};
  __syncthreads();
  FragmentA fragment;
  load_matrices(fragment, tile + threadIdx.x);
  out[threadIdx.x] = fragment.x[0];
}

TEST(Values, OfMatricesForTheTensorCores) {
  std::vector<unsigned> out(32);
  EXPECT_THAT(thrown([&] { launch(matrices_kernel, dim3(1), dim3(32), 0, out.data()); }),
              AllOf(HasSubstr("thread (9,0,0): nothing has written what it reads: reads 16 bytes at offset 144"),
                    HasSubstr("checking/values_test.cpp:")));
}

__global__ void counter_kernel() {
  SIMT_SHARED(int, counter);
  atomicAdd(&counter, 1);
}

TEST(Values, OfACounterThatWasNotCleared) {
  EXPECT_THAT(
      thrown([] { launch(counter_kernel, dim3(1), dim3(32), 0); }),
      HasSubstr("nothing has written what it reads: atomically updates 4 bytes at offset 0 of shared array counter"));
}

}  // namespace
}  // namespace simt
