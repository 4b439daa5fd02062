// Only in AddressSanitizer builds: what it sees of shared and global memory, on the fibers' stacks.
#include <gtest/gtest.h>

#include <vector>

#include "cuda/simt/global_memory.h"
#include "cuda/simt/simt.h"

namespace simt {
namespace {

class AddressDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

enum class Array { declared, bare, dynamic, local };

__global__ void overrun_kernel(Array array, int index, float* out) {
  SIMT_SHARED(float, declared, 63);
  __shared__ float bare[63];
  SIMT_DYNAMIC_SHARED(float, dynamic);
  float local[63];
  float* target = local;
  if (array == Array::declared) target = declared;
  if (array == Array::bare) target = bare;
  if (array == Array::dynamic) target = dynamic;
  for (int i = 0; i < 63; ++i) target[i] = 1;
  __syncthreads();
  out[threadIdx.x] = target[index];
}

void overrun(Array array, int index) {
  std::vector<float> out(32);
  launch(overrun_kernel, dim3(1), dim3(32), 63 * sizeof(float), array, index, out.data());
}

TEST_F(AddressDeathTest, SharedArrays) {
  overrun(Array::declared, 62);
  EXPECT_DEATH(overrun(Array::declared, 63), "overrun_kernel.*block .0,0,0., thread .0,0,0.");
  EXPECT_DEATH(overrun(Array::declared, -1), "READ of size 4");
}

TEST_F(AddressDeathTest, BareSharedArrays) {
  overrun(Array::bare, 62);
  EXPECT_DEATH(overrun(Array::bare, 63), "global-buffer-overflow");
}

TEST_F(AddressDeathTest, DynamicSharedMemory) {
  overrun(Array::dynamic, 62);
  EXPECT_DEATH(overrun(Array::dynamic, 63), "use-after-poison");
}

TEST_F(AddressDeathTest, LocalArraysOnAFibersStack) {
  overrun(Array::local, 62);
  EXPECT_DEATH(overrun(Array::local, 64), "stack-buffer-overflow");
}

__global__ void copy_kernel(const float* in, float* out, int n) {
  for (int i = static_cast<int>(threadIdx.x); i <= n; i += static_cast<int>(blockDim.x)) out[i] = in[i];  // one too far
}

TEST_F(AddressDeathTest, GlobalMemoryOfTheProcess) {
  std::vector<float> in(65);
  EXPECT_DEATH(
      {
        std::vector<float> out(64);
        launch(copy_kernel, dim3(1), dim3(32), 0, in.data(), out.data(), 64);
      },
      "heap-buffer-overflow.*\n.*WRITE of size 4|WRITE of size 4");
}

TEST_F(AddressDeathTest, GlobalMemoryFromTheLayer) {
  std::vector<float> in(65);
  EXPECT_DEATH(
      {
        auto* out = static_cast<float*>(memory::allocate(64 * sizeof(float), "out"));
        launch(copy_kernel, dim3(1), dim3(32), 0, in.data(), out, 64);
        memory::release(out);
      },
      "WRITE of size 4");
}

}  // namespace
}  // namespace simt
