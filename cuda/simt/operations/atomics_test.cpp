#include "cuda/simt/atomics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "cuda/simt/simt.h"
#include "cuda/simt/thrown.h"

namespace simt {
namespace {

using ::testing::HasSubstr;

struct Totals {
  int i = 5;
  unsigned u = 5;
  unsigned long long ull = 5;
  float f = 5;
  double d = 5;
  __nv_bfloat16 b = __float2bfloat16(0.0f);
  int smallest = 1000;
  unsigned largest = 0;
  long long smallest_wide = 1000;
  unsigned long long largest_wide = 0;
  unsigned bits_or = 0;
  unsigned bits_and = ~0u;
  unsigned bits_xor = 0;
  unsigned wrapped = 0;
  unsigned down = 3;
  int difference = 0;
};

__global__ void totals_kernel(Totals* totals) {
  const unsigned t = threadIdx.x;
  const int v = static_cast<int>(t) - 20;
  atomicAdd(&totals->i, v);
  atomicAdd(&totals->u, t);
  atomicAdd(&totals->ull, static_cast<unsigned long long>(t) << 32);
  atomicAdd(&totals->f, 0.5f);
  atomicAdd(&totals->d, 0.25);
  atomicAdd(&totals->b, __float2bfloat16(1.0f));
  atomicMin(&totals->smallest, v);
  atomicMax(&totals->largest, t);
  atomicMin(&totals->smallest_wide, static_cast<long long>(v));
  atomicMax(&totals->largest_wide, static_cast<unsigned long long>(t) << 40);
  atomicOr(&totals->bits_or, 1u << (t % 32));
  atomicAnd(&totals->bits_and, ~(1u << (t % 7)));
  atomicXor(&totals->bits_xor, t);
  atomicInc(&totals->wrapped, 6);
  atomicDec(&totals->down, 6);
  atomicSub(&totals->difference, v);
}

TEST(Atomics, AgreeWithASequenceOfOperations) {
  for (const unsigned n : {1u, 33u, 100u}) {
    Totals totals;
    const ScopedOptions scope(Options{.order = Order::shuffled, .seed = n});
    launch(totals_kernel, dim3(1), dim3(n), 0, &totals);
    const int sum = static_cast<int>(n * (n - 1) / 2);
    EXPECT_EQ(totals.i, 5 + sum - 20 * static_cast<int>(n));
    EXPECT_EQ(totals.u, 5u + static_cast<unsigned>(sum));
    EXPECT_EQ(totals.ull, 5 + (static_cast<unsigned long long>(sum) << 32));
    EXPECT_EQ(totals.f, 5 + 0.5f * static_cast<float>(n));
    EXPECT_EQ(totals.d, 5 + 0.25 * n);
    EXPECT_EQ(__bfloat162float(totals.b), static_cast<float>(n));
    EXPECT_EQ(totals.smallest, -20);
    EXPECT_EQ(totals.largest, n - 1);
    EXPECT_EQ(totals.smallest_wide, -20);
    EXPECT_EQ(totals.largest_wide, static_cast<unsigned long long>(n - 1) << 40);
    EXPECT_EQ(totals.bits_or, n >= 32 ? ~0u : (1u << n) - 1);
    EXPECT_EQ(totals.bits_and, ~((1u << std::min(n, 7u)) - 1));
    unsigned odd = 0;
    for (unsigned t = 0; t < n; ++t) odd ^= t;
    EXPECT_EQ(totals.bits_xor, odd);
    EXPECT_EQ(totals.wrapped, n % 7);
    EXPECT_EQ(totals.down, (3 + 7 * n - n) % 7);
    EXPECT_EQ(totals.difference, -(sum - 20 * static_cast<int>(n)));
  }
}

__global__ void ranks_kernel(int* next, int* rank) { rank[atomicAdd(next, 1)] = static_cast<int>(threadIdx.x); }

TEST(Atomics, ReturnTheValueBefore) {
  int next = 0;
  std::vector<int> rank(77, -1);
  launch(ranks_kernel, dim3(1), dim3(77), 0, &next, rank.data());
  std::sort(rank.begin(), rank.end());
  for (int i = 0; i < 77; ++i) EXPECT_EQ(rank[i], i);
}

__global__ void lock_kernel(int* lock, int* inside, int* count) {
  while (atomicCAS(lock, 0, 1) != 0) {
  }
  const int before = *inside;
  *inside = before + 1;
  atomicAdd(count, 0);  // may switch threads in a shuffled order
  *inside = before;
  *count += 1 + before;
  __threadfence();
  atomicExch(lock, 0);
}

TEST(Atomics, ALockKeepsOthersOut) {
  for (const Order order : {Order::ascending, Order::descending, Order::shuffled}) {
    const ScopedOptions scope(Options{.order = order, .seed = 3});
    int lock = 0;
    int inside = 0;
    int count = 0;
    launch(lock_kernel, dim3(1), dim3(50), 0, &lock, &inside, &count);
    EXPECT_EQ(count, 50);
  }
}

__global__ void maximum_kernel(const float* x, float* largest) {
  auto* bits = reinterpret_cast<unsigned*>(largest);
  unsigned seen = *bits;
  while (__uint_as_float(seen) < x[threadIdx.x]) {
    const unsigned before = atomicCAS(bits, seen, __float_as_uint(x[threadIdx.x]));
    if (before == seen) break;
    seen = before;
  }
}

TEST(Atomics, CompareAndSwapBuildsOtherOperations) {
  std::vector<float> x(64);
  for (int i = 0; i < 64; ++i) x[i] = static_cast<float>(i * 29 % 64);
  for (const Order order : {Order::ascending, Order::descending, Order::shuffled}) {
    const ScopedOptions scope(Options{.order = order});
    float largest = -1;
    launch(maximum_kernel, dim3(1), dim3(64), 0, x.data(), &largest);
    EXPECT_EQ(largest, 63.0f);
  }
}

__global__ void blocks_kernel(unsigned long long* total) { atomicAdd(total, 1ULL); }

TEST(Atomics, AreAtomicAmongWorkers) {
  const ScopedOptions scope(Options{.workers = 4});
  unsigned long long total = 0;
  launch(blocks_kernel, dim3(400), dim3(64), 0, &total);
  EXPECT_EQ(total, 25600u);
}

__global__ void misaligned_kernel(char* bytes) { atomicAdd(reinterpret_cast<int*>(bytes + 2), 1); }

TEST(Atomics, RefuseAMisalignedAddress) {
  alignas(8) char bytes[8] = {};
  EXPECT_THAT(thrown([&] { launch(misaligned_kernel, dim3(1), dim3(1), 0, static_cast<char*>(bytes)); }),
              HasSubstr("thread (0,0,0): an atomic of 4 bytes on the address"));
}

}  // namespace
}  // namespace simt
