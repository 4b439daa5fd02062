// Exact top-k by radix select, one block a row: three histograms (11, 11 and 10 bits) find the k-th value, one ordered
// pass writes the indices.
//   in   scores [T, S] f32      out  indices [T, k] i32
//   bytes 4·T·S; at S = 131,072 that is 0.5 MB a row: 0.11 µs at 4.8 TB/s. One block reads it four times out of L2, so
//   a row is bound by one multiprocessor's load rate (about 15 µs at S = 131,072 by calculation); rows run side by
//   side.
#include "cuda/kernels/indexer/top_k.h"
#include "cuda/kernels/numeric/ordering.h"
#include "cuda/kernels/numeric/reduce.h"
#include "cuda/kernels/numeric/rows.h"
#include "cuda/simt/collectives.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

namespace {

constexpr int kBins = 2048;
constexpr int kKeys = 4;  // neighbours a thread takes in the last pass

__device__ int warp_exclusive_sum(int value, int* total) {
  const int before = simt::warp_exclusive_sum(value, total);
  return SIMT_MUTANT(exclusive_sum_is_inclusive) ? before + value : before;
}

/// The bin that holds the `wanted`-th largest entry, and how many of that bin's entries are wanted. Called by one warp.
__device__ void find_bin(const int* histogram, int wanted, int* bin, int* rest) {
  int group_total = 0;
  for (int i = 0; i < kBins / 32; ++i) group_total += histogram[lane_id() * (kBins / 32) + i];
  // From the highest group down: lane l looks at what lies above its own group.
  int all = 0;
  const int above_group = [&] {
    const int below = warp_exclusive_sum(group_total, &all);
    return all - below - group_total;
  }();
  const unsigned here = __ballot_sync(
      ~0u, above_group < wanted && above_group + group_total >= wanted + (SIMT_MUTANT(bin_off_by_one) ? 1 : 0));
  const int group = __ffs(static_cast<int>(here)) - 1;
  const int above = __shfl_sync(~0u, above_group, group);

  const int first = group * (kBins / 32) + 2 * lane_id();
  const int high = histogram[first + 1];
  const int low = histogram[first];
  int inside = 0;
  const int below = warp_exclusive_sum(high + low, &inside);
  const int above_high = above + inside - below - high - low;
  if (above_high < wanted && above_high + high >= wanted) {
    *bin = first + 1;
    *rest = wanted - above_high;
  } else if (above_high + high < wanted && above_high + high + low >= wanted) {
    *bin = first;
    *rest = wanted - above_high - high;
  }
}

template <int kThreads>
__global__ void __launch_bounds__(kThreads, 1) top_k_kernel(TopK p) {
  using Scan = simt::BlockScan<int, kThreads>;
  SIMT_SHARED(int, histogram, kBins);
  SIMT_SHARED(typename Scan::Storage, scan_storage, 2);
  SIMT_SHARED(int, found_bin);
  SIMT_SHARED(int, found_rest);
  const int row = static_cast<int>(blockIdx.x);
  const int thread = static_cast<int>(threadIdx.x);
  const int count = p.key_counts[row];
  std::int32_t* const out = p.indices + static_cast<std::int64_t>(row) * p.k;
  for (int i = min(count, p.k) + thread; i < p.k; i += kThreads) out[i] = -1;
  if (count <= p.k) {
    for (int i = thread; i < count; i += kThreads) out[i] = count - 1 - i;
    return;
  }

  const float* const scores = p.scores + static_cast<std::int64_t>(row) * p.score_stride;
  std::uint32_t prefix = 0;  // the leading bits of the k-th value, as far as known
  int wanted = p.k;          // how many of the entries with that prefix are selected
  int known = 0;
#pragma unroll
  for (int pass = 0; pass < 3; ++pass) {
    const int bits = pass < 2 ? 11 : 10;
    for (int i = thread; i < kBins && !(pass > 0 && SIMT_MUTANT(histogram_of_the_last_pass)); i += kThreads)
      histogram[i] = 0;
    __syncthreads();
    const int shift = 32 - known - bits;
    for (int i = thread; i < count + (SIMT_MUTANT(key_too_many) ? 1 : 0); i += kThreads) {
      const std::uint32_t key = ordered_bits(scores[i]);
      if (known != 0 && key >> (32 - known) != prefix) continue;
      int* const bin = &histogram[(key >> shift) & ((1u << bits) - 1u)];
      if (SIMT_MUTANT(histogram_without_atomics)) {
        ++*bin;
      } else {
        atomicAdd(bin, 1);
      }
    }
    __syncthreads();
    if (warp_id() == 0) find_bin(histogram, wanted, &found_bin, &found_rest);
    if (!SIMT_MUTANT(found_bin_without_barrier)) __syncthreads();
    prefix = (prefix << bits) | static_cast<std::uint32_t>(found_bin);
    wanted = found_rest;
    known += bits;
  }

  // In index order: everything above the k-th value, and the first `wanted` of its equals. Two 16-bit counts share a
  // word: above | equal << 16.
  int above_before = 0;
  int equal_before = 0;
  int buffer = 0;
  for (int start = 0; start < count; start += kKeys * kThreads, buffer ^= SIMT_MUTANT(scans_share_a_storage) ? 0 : 1) {
    std::uint32_t keys[kKeys];
    int mine = 0;
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const int index = start + kKeys * thread + j;
      keys[j] = index < count ? ordered_bits(scores[index]) : 0;
      if (index < count) mine += (keys[j] > prefix ? 1 : 0) + (keys[j] == prefix ? 1 << 16 : 0);
    }
    int total = 0;
    const int before = Scan::exclusive_sum(scan_storage[buffer], mine, &total);
    int above = above_before + (before & 0xFFFF);
    int equal = equal_before + (before >> 16);
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const int index = start + kKeys * thread + j;
      if (index < count) {
        const bool is_above = keys[j] > prefix;
        const bool is_equal = keys[j] == prefix;
        if (is_above || (is_equal && equal < wanted)) out[p.k - 1 - above - min(equal, wanted)] = index;
        above += is_above ? 1 : 0;
        equal += is_equal ? 1 : 0;
      }
    }
    above_before += total & 0xFFFF;
    equal_before += total >> 16;
  }
}

}  // namespace

void top_k(Stream stream, const TopK& p) {
  if (p.rows == 0 || p.k == 0) return;
  if (p.max_keys <= 1024) {
    simt::launch_on(stream, top_k_kernel<128>, dim3(p.rows), dim3(128), 0, p);
  } else {
    simt::launch_on(stream, top_k_kernel<1024>, dim3(p.rows), dim3(1024), 0, p);
  }
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
