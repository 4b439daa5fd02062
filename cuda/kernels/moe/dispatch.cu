// Expert dispatch: a stable sort of (token, expert) pairs by expert, in one block, with CUB's sort and scan.
//   in   chosen [T, K] i32      out  offsets [E+1], pairs, places [T·K], active experts
//   bytes 16·T·K + 8·E; at T = 16, K = 8, E = 256 that is 4 kB. Launch-bound.
// Pairs are sorted tile by tile: what an expert has of a tile lies together, behind what it had of the tiles before.
#include <bit>

#include "cuda/kernels/moe/dispatch.h"
#include "cuda/kernels/numeric/rows.h"
#include "cuda/simt/collectives.h"
#include "cuda/simt/simt.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

namespace {

constexpr int kThreads = 256;

/// offsets, active and active_count from each expert's number of pairs; next[e] becomes the expert's first place.
template <class Scan>
__device__ void place_experts(const ExpertDispatch& p, int* next, typename Scan::Storage& storage) {
  // One scan for both sums: pairs in the upper half, experts that have any in the lower.
  unsigned long long before_all = 0;
  const int experts = p.experts - (SIMT_MUTANT(last_expert_not_dispatched) ? 1 : 0);
  for (int first = 0; first < p.experts; first += kThreads) {
    const int expert = first + static_cast<int>(threadIdx.x);
    const int count = expert < experts ? next[expert] : 0;
    const unsigned long long mine = static_cast<unsigned long long>(count) << 32 | (count > 0 ? 1u : 0u);
    unsigned long long total = 0;
    const unsigned long long before = before_all + Scan::exclusive_sum(storage, mine, &total);
    before_all += total;
    if (expert < p.experts) {
      const int offset = static_cast<int>(before >> 32);
      p.lists.offsets[expert] = offset;
      next[expert] = offset;
      if (count > 0) p.lists.active[before & 0xFFFFFFFFu] = expert;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    p.lists.offsets[p.experts] = static_cast<int>(before_all >> 32);
    *p.lists.active_count = static_cast<int>(before_all & 0xFFFFFFFFu);
  }
}

template <int kItems>
__global__ void __launch_bounds__(kThreads) expert_dispatch_kernel(ExpertDispatch p, int key_bits) {
  using Scan = simt::BlockScan<unsigned long long, kThreads>;
  using Sort = simt::BlockSort<kThreads, kItems>;
  constexpr int kTile = kThreads * kItems;
  SIMT_DYNAMIC_SHARED(int, next);           // [E] the next free place of each expert
  int* const run_start = next + p.experts;  // [E] where its pairs begin in the sorted tile
  SIMT_SHARED(typename Scan::Storage, scan_storage);
  SIMT_SHARED(typename Sort::Storage, sort_storage);
  SIMT_SHARED(int, sorted, kTile);
  const int thread = static_cast<int>(threadIdx.x);
  const int pairs = p.tokens * p.top_k;

  for (int e = thread; e < p.experts && !SIMT_MUTANT(dispatch_counts_not_cleared); e += kThreads) next[e] = 0;
  __syncthreads();
  for (int pair = thread; pair < pairs; pair += kThreads) {
    if (SIMT_MUTANT(dispatch_counts_without_atomics)) {
      ++next[p.chosen[pair]];
    } else {
      atomicAdd(&next[p.chosen[pair]], 1);
    }
  }
  __syncthreads();
  place_experts<Scan>(p, next, scan_storage);

  for (int start = 0; start < pairs; start += kTile) {
    unsigned keys[kItems];
    int values[kItems];
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      values[i] = start + thread * kItems + i;
      keys[i] = static_cast<unsigned>(values[i] < pairs ? p.chosen[values[i]] : p.experts - 1);
    }
    Sort::sort(sort_storage, keys, values, key_bits);
    const auto at = [&](int i) { return thread * kItems + i; };
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (values[i] >= pairs) keys[i] = static_cast<unsigned>(p.experts);  // no pair: these are the last, in any case
      sorted[at(i)] = static_cast<int>(keys[i]);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int expert = static_cast<int>(keys[i]);
      if (expert < p.experts && (at(i) == 0 || sorted[at(i) - 1] != expert)) run_start[expert] = at(i);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int expert = static_cast<int>(keys[i]);
      if (expert >= p.experts) continue;
      const int place = next[expert] + at(i) - run_start[expert];
      p.lists.pairs[place] = values[i];
      p.lists.places[values[i]] = place;
    }
    if (!SIMT_MUTANT(dispatch_places_move_too_early)) __syncthreads();
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int expert = static_cast<int>(keys[i]);
      const bool last = at(i) + 1 == kTile || sorted[at(i) + 1] != expert;
      if (expert < p.experts && last) next[expert] += at(i) + 1 - run_start[expert];
    }
    __syncthreads();
  }
}

template <int kItems>
void launch(Stream stream, const ExpertDispatch& p) {
  const int key_bits = p.experts > 1 ? std::bit_width(static_cast<unsigned>(p.experts - 1)) : 1;
  simt::launch_on(stream, expert_dispatch_kernel<kItems>, dim3(1), dim3(kThreads),
                  2 * static_cast<std::size_t>(p.experts) * sizeof(int), p, key_bits);
}

}  // namespace

void expert_dispatch(Stream stream, const ExpertDispatch& p) {
  if (p.tokens == 0) return;
  if (p.tokens * p.top_k <= kThreads) {
    launch<1>(stream, p);
  } else {
    launch<8>(stream, p);
  }
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
