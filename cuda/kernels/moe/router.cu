// Router: sigmoid, bias, exact top-k with lowest-index ties, normalisation, scale. One warp a token; lane l looks after
// experts l, l + 32, ….
//   in   logits [T, E] f32      out  chosen [T, K] i32, weights [T, K] f32
//   bytes 4·T·E; at T = 16, E = 256 that is 16 kB. Launch-bound.
#include <string>

#include "cuda/kernels/moe/router.h"
#include "cuda/kernels/numeric/ordering.h"
#include "cuda/kernels/numeric/reduce.h"
#include "cuda/kernels/numeric/rows.h"
#include "reference/tensor/error.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

namespace {

constexpr int kWarps = 4;

/// Bit i of the result: expert lane + 32·i may be chosen, because its group is among the best.
__device__ std::uint32_t experts_in_best_groups(const Router& p, const float* choice) {
  const int size = p.experts / p.groups;
  std::uint32_t allowed = 0;
  std::uint32_t taken_groups = 0;  // bit i: group lane + 32·i
  for (int round = 0; round < p.top_groups; ++round) {
    unsigned long long best = 0;
    for (int i = 0; 32 * i + lane_id() < p.groups; ++i) {
      const int group = 32 * i + lane_id();
      if ((taken_groups >> i & 1u) != 0) continue;
      unsigned long long first = 0;
      unsigned long long second = 0;
      for (int e = group * size; e < (group + 1) * size; ++e) {
        const unsigned long long key = selection_key(choice[e], e);
        second = key > first ? first : key > second ? key : second;
        first = key > first ? key : first;
      }
      const float sum = choice[selected_index(first)] + (size > 1 ? choice[selected_index(second)] : 0.0f);
      const unsigned long long key = selection_key(sum, group);
      best = key > best ? key : best;
    }
    const int group = selected_index(warp_max_key(best));
    if (group % 32 == lane_id()) taken_groups |= 1u << (group / 32);
    for (int i = 0; 32 * i + lane_id() < p.experts; ++i) {
      if ((32 * i + lane_id()) / size == group) allowed |= 1u << i;
    }
  }
  return allowed;
}

__global__ void __launch_bounds__(32 * kWarps) router_kernel(Router p) {
  SIMT_DYNAMIC_SHARED(float, shared);  // [kWarps, 2, E]
  const int token = static_cast<int>(blockIdx.x) * kWarps + warp_id();
  if (token >= p.tokens) return;  // nobody waits: warps work alone
  float* const score = shared + 2 * warp_id() * p.experts;
  float* const choice = score + p.experts;
  const float* const logits = p.logits + static_cast<std::int64_t>(token) * row_stride(p.experts);
  for (int e = lane_id(); e < p.experts; e += 32) {
    score[e] = 1.0f / (1.0f + expf(-logits[e]));
    choice[e] = score[e] + p.bias[e];
  }
  if (!SIMT_MUTANT(router_scores_without_syncwarp)) __syncwarp();

  std::uint32_t chosen = 0;  // bit i: expert lane + 32·i
  if (p.forced != nullptr) {
    for (int k = 0; k < p.top_k; ++k) {
      const int expert = p.forced[static_cast<std::int64_t>(token) * p.top_k + k];
      if (expert % 32 == lane_id()) chosen |= 1u << (expert / 32);
    }
  } else {
    const std::uint32_t allowed = p.groups > 1 ? experts_in_best_groups(p, choice) : ~0u;
    for (int k = 0; k < p.top_k; ++k) {
      unsigned long long best = 0;
      for (int i = 0; 32 * i + lane_id() < p.experts; ++i) {
        if (((chosen | ~allowed) >> i & 1u) != 0) continue;
        const unsigned long long key = selection_key(choice[32 * i + lane_id()], 32 * i + lane_id());
        best = key > best ? key : best;
      }
      const int expert = selected_index(warp_max_key(best));
      if (expert % 32 == lane_id()) chosen |= 1u << (expert / 32);
    }
  }

  float sum = 0;
  for (int i = 0; 32 * i + lane_id() < p.experts; ++i) {
    if ((chosen >> i & 1u) != 0) sum += score[32 * i + lane_id()];
  }
  const float divisor = p.normalise ? warp_sum(sum) + 1e-20f : 1.0f;
  int before = 0;
  for (int i = 0; 32 * i < p.experts; ++i) {
    const unsigned here =
        __ballot_sync(SIMT_MUTANT(ballot_with_half_a_mask) ? 0xFFFFu : ~0u, static_cast<int>(chosen >> i & 1u));
    if ((chosen >> i & 1u) != 0) {
      const std::int64_t at =
          static_cast<std::int64_t>(token) * p.top_k + before + __popc(here & ((1u << lane_id()) - 1u));
      p.chosen[at] = 32 * i + lane_id();
      p.weights[at] = score[32 * i + lane_id()] / divisor * p.scale;
    }
    before += __popc(here);
  }
}

}  // namespace

void router(Stream stream, const Router& p) {
  if (p.tokens == 0) return;
  if (p.experts > 1024) {
    throw input_error("n_routed_experts " + std::to_string(p.experts) + ": the CUDA head routes among at most 1024.");
  }
  simt::launch_on(stream, router_kernel, dim3(ceil_div(p.tokens, kWarps)), dim3(32 * kWarps),
                  static_cast<std::size_t>(2 * kWarps * p.experts) * sizeof(float), p);
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
