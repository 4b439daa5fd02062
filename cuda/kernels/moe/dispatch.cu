// Expert dispatch: a counting sort of (token, expert) pairs, one block an expert. Every block reads all pairs and
// counts for itself what lies before its own expert, so blocks need nothing of each other and the order is always the
// same.
//   in   chosen [T, K] i32      out  offsets [E+1], pairs, places [T·K], active experts
//   bytes 4·T·K·E out of L2; at T = 16, K = 8, E = 256 that is 0.13 MB. Launch-bound.
#include "cuda/kernels/moe/dispatch.h"
#include "cuda/kernels/numeric/reduce.h"
#include "cuda/kernels/numeric/rows.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

namespace {

constexpr int kMaxThreads = 256;

__global__ void __launch_bounds__(kMaxThreads) expert_dispatch_kernel(ExpertDispatch p) {
  SIMT_DYNAMIC_SHARED(std::uint32_t, seen);  // [⌈E/32⌉] experts below this one that have pairs
  SIMT_SHARED(int, scratch, 32);
  SIMT_SHARED(int, warp_counts, 2, 32);
  const int expert = static_cast<int>(blockIdx.x);
  const int pairs = p.tokens * p.top_k;
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const int words = ceil_div(p.experts, 32);
  for (int i = thread; i < words && !SIMT_MUTANT(dispatch_flags_not_cleared); i += threads) seen[i] = 0;
  __syncthreads();

  int lower = 0;
  for (int pair = thread; pair < pairs; pair += threads) {
    const int other = p.chosen[pair];
    if (other < expert) {
      ++lower;
      atomicOr(&seen[other / 32], 1u << (other % 32));
    }
  }
  const int offset = block_sum(lower, scratch);
  __syncthreads();
  int distinct = 0;
  for (int i = thread; i < words; i += threads) distinct += __popc(seen[i]);
  const int slot = block_sum(distinct, scratch);

  int count = 0;
  int buffer = 0;
  for (int start = 0; start < pairs; start += threads, buffer ^= SIMT_MUTANT(dispatch_counts_in_one_buffer) ? 0 : 1) {
    const int pair = start + thread;
    const bool mine = pair < pairs && p.chosen[pair] == expert;
    const unsigned votes = __ballot_sync(~0u, mine);
    if (lane_id() == 0) warp_counts[buffer][warp_id()] = __popc(votes);
    __syncthreads();
    int before = count + __popc(votes & ((1u << lane_id()) - 1u));
    for (int w = 0; w < threads / 32; ++w) {
      if (w < warp_id()) before += warp_counts[buffer][w];
      count += warp_counts[buffer][w];
    }
    if (mine) {
      p.lists.pairs[offset + before] = pair;
      p.lists.places[pair] = offset + before;
    }
  }

  if (thread == 0) {
    p.lists.offsets[expert] = offset;
    if (count > 0) p.lists.active[slot] = expert;
    if (expert == p.experts - 1) {
      p.lists.offsets[p.experts] = offset + count;
      *p.lists.active_count = slot + (count > 0 ? 1 : 0);
    }
  }
}

}  // namespace

void expert_dispatch(Stream stream, const ExpertDispatch& p) {
  if (p.tokens == 0) return;
  const int wanted = round_up(p.tokens * p.top_k, 32);
  simt::launch_on(stream, expert_dispatch_kernel, dim3(p.experts - (SIMT_MUTANT(last_expert_not_dispatched) ? 1 : 0)),
                  dim3(wanted < kMaxThreads ? wanted : kMaxThreads),
                  static_cast<std::size_t>(ceil_div(p.experts, 32)) * sizeof(std::uint32_t), p);
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
