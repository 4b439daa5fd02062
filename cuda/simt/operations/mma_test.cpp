#include "cuda/simt/mma.h"

#include <cuda_fp8.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "cuda/simt/simt.h"
#include "cuda/simt/thrown.h"

namespace simt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Element (row, column) of a fragment by the formulas of the PTX manual, which count elements a0, a1, … of a lane.
template <class Element>
struct PtxLayout;

template <>
struct PtxLayout<__nv_bfloat16> {
  static constexpr int k = 16;
  static int a_row(int lane, int i) { return i % 4 < 2 ? lane / 4 : lane / 4 + 8; }
  static int a_column(int lane, int i) { return lane % 4 * 2 + (i & 1) + (i < 4 ? 0 : 8); }
  static int b_row(int lane, int i) { return lane % 4 * 2 + (i & 1) + (i < 2 ? 0 : 8); }
};

template <>
struct PtxLayout<__nv_fp8_e4m3> {
  static constexpr int k = 32;
  static int a_row(int lane, int i) { return i % 8 < 4 ? lane / 4 : lane / 4 + 8; }
  static int a_column(int lane, int i) { return lane % 4 * 4 + (i & 3) + (i < 8 ? 0 : 16); }
  static int b_row(int lane, int i) { return lane % 4 * 4 + (i & 3) + (i < 4 ? 0 : 16); }
};

void multiply(FragmentD& d, const FragmentA& a, const FragmentB& b, __nv_bfloat16) { mma_bf16(d, a, b); }
void multiply(FragmentD& d, const FragmentA& a, const FragmentB& b, __nv_fp8_e4m3) { mma_e4m3(d, a, b); }

template <class Element>
__global__ void product_kernel(const Element* a, const Element* b, float* d) {
  using Layout = PtxLayout<Element>;
  const int lane = static_cast<int>(threadIdx.x);
  FragmentA fragment_a;
  FragmentB fragment_b;
  FragmentD fragment_d;
  Element elements[16 / sizeof(Element)];
  for (int i = 0; i < static_cast<int>(16 / sizeof(Element)); ++i)
    elements[i] = a[Layout::a_row(lane, i) * Layout::k + Layout::a_column(lane, i)];
  std::memcpy(&fragment_a, static_cast<const void*>(elements), 16);
  for (int i = 0; i < static_cast<int>(8 / sizeof(Element)); ++i)
    elements[i] = b[Layout::b_row(lane, i) * 8 + lane / 4];
  std::memcpy(&fragment_b, static_cast<const void*>(elements), 8);
  for (int i = 0; i < 4; ++i) fragment_d.x[i] = d[(lane / 4 + 8 * (i / 2)) * 8 + lane % 4 * 2 + i % 2];
  multiply(fragment_d, fragment_a, fragment_b, Element{});
  for (int i = 0; i < 4; ++i) d[(lane / 4 + 8 * (i / 2)) * 8 + lane % 4 * 2 + i % 2] = fragment_d.x[i];
}

template <class Element>
void expect_products() {
  constexpr int k = PtxLayout<Element>::k;
  std::mt19937 random(3);
  std::uniform_int_distribution<int> small(-8, 8);  // sums of their products are exact in float32
  std::vector<Element> a(16 * k);
  std::vector<Element> b(k * 8);
  std::vector<float> d(16 * 8);
  for (auto& v : a) v = Element(static_cast<float>(small(random)));
  for (auto& v : b) v = Element(static_cast<float>(small(random)));
  for (auto& v : d) v = static_cast<float>(small(random));
  std::vector<float> expected = d;
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column)
      for (int i = 0; i < k; ++i)
        expected[row * 8 + column] += static_cast<float>(a[row * k + i]) * static_cast<float>(b[i * 8 + column]);
  launch(product_kernel<Element>, dim3(1), dim3(32), 0, a.data(), b.data(), d.data());
  EXPECT_EQ(d, expected);
}

TEST(Mma, Bf16AgreesWithTheProductOfMatrices) { expect_products<__nv_bfloat16>(); }
TEST(Mma, E4m3AgreesWithTheProductOfMatrices) { expect_products<__nv_fp8_e4m3>(); }

template <bool transposed>
__global__ void load_kernel(unsigned* out) {
  SIMT_DYNAMIC_SHARED(std::uint16_t, tile);  // [16, 24], of which the first 16 columns are used
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 16 * 24; i += 32) tile[i] = static_cast<std::uint16_t>(i / 24 * 100 + i % 24);
  __syncwarp();
  // The matrices are the quarters of the tile in the order of A's registers.
  const int matrix = lane / 8;
  const int row = lane % 8 + 8 * (matrix % 2);
  FragmentA fragment;
  if constexpr (transposed) {
    load_matrices_transposed(fragment, tile + row * 24 + 8 * (matrix / 2));
  } else {
    load_matrices(fragment, tile + row * 24 + 8 * (matrix / 2));
  }
  for (int r = 0; r < 4; ++r) out[lane * 4 + r] = fragment.x[r];
}

TEST(LoadMatrices, GivesTheFragmentOfARowMajorTile) {
  std::vector<unsigned> out(128);
  launch(load_kernel<false>, dim3(1), dim3(32), 16 * 24 * 2, out.data());
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 8; ++i) {
      using Layout = PtxLayout<__nv_bfloat16>;
      ASSERT_EQ(out[lane * 4 + i / 2] >> (16 * (i % 2)) & 0xFFFFu,
                static_cast<unsigned>(Layout::a_row(lane, i) * 100 + Layout::a_column(lane, i)));
    }
}

TEST(LoadMatrices, TransposesEachMatrix) {
  std::vector<unsigned> out(128);
  launch(load_kernel<true>, dim3(1), dim3(32), 16 * 24 * 2, out.data());
  for (int lane = 0; lane < 32; ++lane)
    for (int m = 0; m < 4; ++m)
      for (int i = 0; i < 2; ++i) {
        const int row = lane % 4 * 2 + i + 8 * (m % 2);
        const int column = lane / 4 + 8 * (m / 2);
        ASSERT_EQ(out[lane * 4 + m] >> (16 * i) & 0xFFFFu, static_cast<unsigned>(row * 100 + column));
      }
}

__global__ void half_warp_kernel() {
  FragmentA a{};
  FragmentB b{};
  FragmentD d{};
  if (threadIdx.x < 16) return;
  mma_bf16(d, a, b);
}

TEST(Mma, TakesAWholeWarp) {
  EXPECT_THAT(thrown([] { launch(half_warp_kernel, dim3(1), dim3(32), 0); }),
              AllOf(HasSubstr("mma_bf16 at "), HasSubstr("operations/mma_test.cpp")));
  const ScopedOptions scope(Options{.allow_early_exit = true});
  EXPECT_THAT(thrown([] { launch(half_warp_kernel, dim3(1), dim3(32), 0); }),
              HasSubstr("tensor-core operation by the lanes 0xffff0000: it takes all 32"));
}

__global__ void bad_load_kernel(const char* global, int offset) {
  SIMT_SHARED(float4, tile, 32);
  FragmentA fragment;
  load_matrices(fragment, offset < 0 ? global : reinterpret_cast<char*>(tile) + offset);
}

TEST(LoadMatrices, NeedsAlignedRowsInSharedMemory) {
  alignas(16) char global[16] = {};
  const char* pointer = global;
  EXPECT_THAT(thrown([&] { launch(bad_load_kernel, dim3(1), dim3(32), 0, pointer, 8); }),
              HasSubstr("a multiple of 16"));
  EXPECT_THAT(thrown([&] { launch(bad_load_kernel, dim3(1), dim3(32), 0, pointer, -1); }),
              HasSubstr("not the block's shared memory"));
}

}  // namespace
}  // namespace simt
