#pragma once

#include "cuda/simt/barriers.h"
#include "cuda/simt/qualifiers.h"
#include "cuda/simt/warp.h"

/// Scans and sorts over the threads of a warp or a block: CUB's on the device, their definition on the CPU.
///
///   simt::warp_exclusive_sum(value, &total)                     the sum over the lanes before this one
///
///   using Scan = simt::BlockScan<int, 256>;                     for blocks of exactly 256 threads
///   SIMT_SHARED(Scan::Storage, storage);
///   Scan::exclusive_sum(storage, value, &total)                 the sum over the threads before this one
///   Scan::inclusive_sum(storage, value, &total)                 its own value included
///
///   using Sort = simt::BlockSort<256, 8>;                       thread t holds items 8·t … 8·t + 7
///   Sort::sort(storage, keys, values, bits)                     ascending by the lowest `bits` of the keys, stable
///
/// Every thread must call, and `total` is every thread's. As in CUB, storage may be used again only after a barrier; a
/// call has one inside, so that two storages in turn need none between. On the CPU a missing one is a race, which
/// checked kernels report.
///
/// Sums of floating-point values are added in one order, the same in every run: lanes by doubling distances, then warps
/// in ascending order (CUB's BLOCK_SCAN_WARP_SCANS).
#if SIMT_ON_CPU

#include <algorithm>
#include <iterator>
#include <numeric>

namespace simt {

template <class T>
T warp_inclusive_sum(T value, const Location& where = Location::current()) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  for (unsigned distance = 1; distance < 32; distance *= 2) {
    const T before = __shfl_up_sync(~0u, value, distance, 32, where);
    if (lane >= static_cast<int>(distance)) value += before;
  }
  return value;
}

template <class T>
T warp_exclusive_sum(T value, T* total, const Location& where = Location::current()) {
  const T inclusive = warp_inclusive_sum(value, where);
  *total = __shfl_sync(~0u, inclusive, 31, 32, where);
  const T before = __shfl_up_sync(~0u, inclusive, 1, 32, where);
  return (threadIdx.x & 31u) == 0 ? T{} : before;
}

template <class T, int kThreads>
class BlockScan {
 public:
  static_assert(kThreads % 32 == 0, "whole warps");
  struct Storage {
    T warp_totals[kThreads / 32];
  };

  static T exclusive_sum(Storage& storage, T value, T* total, const Location& where = Location::current()) {
    T warp_total{};
    const T before = warp_exclusive_sum(value, &warp_total, where);
    return warps_before(storage, warp_total, total, where) + before;
  }

  static T inclusive_sum(Storage& storage, T value, T* total, const Location& where = Location::current()) {
    const T inclusive = warp_inclusive_sum(value, where);
    const T warp_total = __shfl_sync(~0u, inclusive, 31, 32, where);
    return warps_before(storage, warp_total, total, where) + inclusive;
  }

 private:
  static T warps_before(Storage& storage, T warp_total, T* total, const Location& where) {
    const unsigned warp = threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) storage.warp_totals[warp] = warp_total;
    __syncthreads(where);
    T before{};
    T sum{};
    for (unsigned w = 0; w < kThreads / 32; ++w) {
      if (w == warp) before = sum;
      sum += storage.warp_totals[w];
    }
    *total = sum;
    return before;
  }
};

template <int kThreads, int kItems>
class BlockSort {
 public:
  struct Storage {
    unsigned keys[kThreads * kItems];
    int values[kThreads * kItems];
    int order[kThreads * kItems];
  };

  static void sort(Storage& storage, unsigned (&keys)[kItems], int (&values)[kItems], int bits,
                   const Location& where = Location::current()) {
    const int first = static_cast<int>(threadIdx.x) * kItems;
    for (int i = 0; i < kItems; ++i) {
      storage.keys[first + i] = keys[i];
      storage.values[first + i] = values[i];
    }
    __syncthreads(where);
    if (threadIdx.x == 0) {
      const unsigned mask = bits >= 32 ? ~0u : (1u << bits) - 1u;
      std::iota(std::begin(storage.order), std::end(storage.order), 0);
      std::stable_sort(std::begin(storage.order), std::end(storage.order),
                       [&](int a, int b) { return (storage.keys[a] & mask) < (storage.keys[b] & mask); });
    }
    __syncthreads(where);
    for (int i = 0; i < kItems; ++i) {
      keys[i] = storage.keys[storage.order[first + i]];
      values[i] = storage.values[storage.order[first + i]];
    }
  }
};

}  // namespace simt

#else

#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/warp/warp_scan.cuh>

namespace simt {

template <class T>
__device__ __forceinline__ T warp_exclusive_sum(T value, T* total) {
  typename cub::WarpScan<T>::TempStorage nothing;  // a warp of 32 scans by shuffles
  T before;
  cub::WarpScan<T>(nothing).ExclusiveSum(value, before, *total);
  return before;
}

template <class T, int kThreads>
class BlockScan {
  using Cub = cub::BlockScan<T, kThreads, cub::BLOCK_SCAN_WARP_SCANS>;

 public:
  using Storage = typename Cub::TempStorage;

  __device__ __forceinline__ static T exclusive_sum(Storage& storage, T value, T* total) {
    T before;
    Cub(storage).ExclusiveSum(value, before, *total);
    return before;
  }

  __device__ __forceinline__ static T inclusive_sum(Storage& storage, T value, T* total) {
    T inclusive;
    Cub(storage).InclusiveSum(value, inclusive, *total);
    return inclusive;
  }
};

template <int kThreads, int kItems>
class BlockSort {
  using Cub = cub::BlockRadixSort<unsigned, kThreads, kItems, int>;

 public:
  using Storage = typename Cub::TempStorage;

  __device__ __forceinline__ static void sort(Storage& storage, unsigned (&keys)[kItems], int (&values)[kItems],
                                              int bits) {
    Cub(storage).Sort(keys, values, 0, bits);
  }
};

}  // namespace simt

#endif
