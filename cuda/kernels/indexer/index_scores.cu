// Indexer scores, causal: keys are the rows of a tensor-core product whose columns are the heads.
//   in   queries [T, h, d], key cache [S, d] bf16 or E4M3      out  scores [T, S] f32
//   FLOPs 2·T·S·h·d, bytes S·d·(2 or 1) a sequence; at S = 131,072, h = 32, d = 128: 33.6 MB, 7 µs at 4.8 TB/s in bf16,
//   half in FP8; 1.07 GFLOP a token, 1.4 µs at 790 TFLOP/s. Bound by bandwidth for a token or two, by tensor cores from
//   T = 6.
// A warp keeps its 32 keys in registers and goes through the block's tokens, so a key is read once for all draft tokens
// of its sequence.
#include <string>

#include "cuda/kernels/indexer/index_layout.h"
#include "cuda/kernels/indexer/index_scores.h"
#include "cuda/kernels/numeric/fp8.h"
#include "cuda/kernels/numeric/fragments.h"
#include "cuda/kernels/numeric/reduce.h"
#include "cuda/kernels/numeric/rows.h"
#include "reference/tensor/error.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

namespace {

constexpr int kWarps = 4;
constexpr int kTiles = 2;  // of 16 keys a warp
constexpr int kBlockKeys = 16 * kTiles * kWarps;
constexpr int kBlockTokens = 16;

/// Entries k … k+7 of a key as bf16.
__device__ inline uint4 load_key(const IndexScores& p, std::int64_t row, int stride, int k) {
  if (p.cache_fp8 == nullptr) return *reinterpret_cast<const uint4*>(p.cache + row * stride + k);
  const uint2 codes = *reinterpret_cast<const uint2*>(p.cache_fp8 + row * stride + k);
  const uint2 low = e4m3x4_to_bf16(codes.x);
  const uint2 high = e4m3x4_to_bf16(codes.y);
  return uint4{low.x, low.y, high.x, high.y};
}

template <int kSteps>
__global__ void __launch_bounds__(32 * kWarps) index_scores_kernel(IndexScores p) {
  const int group = fragment_group();
  const int quad = fragment_quad();
  const int stride = index_stride(p.dims);
  const int steps = stride / 32;
  const int first_key = static_cast<int>(blockIdx.x) * kBlockKeys + warp_id() * 16 * kTiles;
  const int first_token = static_cast<int>(blockIdx.y) * kBlockTokens;
  const int last_token = min(p.tokens, first_token + kBlockTokens);

  uint4 keys[kTiles][2][kSteps];
  float key_scale[kTiles][2];
  int loaded_base = -1;
  int loaded_count = -1;
  for (int token = first_token; token < last_token; ++token) {
    const int base = p.key_bases[token];
    const int count = p.key_counts[token];
    if (first_key < count && (base != loaded_base || count > loaded_count)) {
      loaded_base = base;
      loaded_count = count;
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int key = first_key + 16 * tile + 8 * half + group;
          const bool visible = key < count;
          const std::int64_t row = static_cast<std::int64_t>(base) + key;
          key_scale[tile][half] = visible && p.cache_fp8 != nullptr ? p.cache_scales[row] : 1.0f;
#pragma unroll
          for (int step = 0; step < kSteps; ++step) {
            keys[tile][half][step] =
                visible && step < steps ? load_key(p, row, stride, 32 * step + 8 * quad) : uint4{0, 0, 0, 0};
          }
        }
      }
    }

    float score[kTiles][2] = {};
    if (first_key < count) {
      for (int head = 0; head < p.heads; head += 8) {
        simt::FragmentD dot[kTiles] = {};
        const bf16* const query =
            p.queries + (static_cast<std::int64_t>(token) * p.heads + head + group) * stride + 8 * quad;
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          if (step < steps) {
            const uint4 q =
                head + group < p.heads ? *reinterpret_cast<const uint4*>(query + 32 * step) : uint4{0, 0, 0, 0};
#pragma unroll
            for (int tile = 0; tile < kTiles; ++tile)
              mma_step32(dot[tile], keys[tile][0][step], keys[tile][1][step], q);
          }
        }
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int column = head + 2 * quad + j;
          const float weight =
              column < p.heads ? p.head_weights[static_cast<std::int64_t>(token) * row_stride(p.heads) + column] : 0.0f;
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              const float value = dot[tile].x[2 * half + j];
              // Not fmaxf(value, 0), which would hide a NaN.
              score[tile][half] += weight * (value < 0.0f ? 0.0f : value);
            }
          }
        }
      }
    }
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float sum = score[tile][half];
        sum += __shfl_xor_sync(~0u, sum, 1);
        if (!SIMT_MUTANT(score_of_half_a_quad)) sum += __shfl_xor_sync(~0u, sum, 2);
        const int key = first_key + 16 * tile + 8 * half + group;
        float* const out = p.scores + static_cast<std::int64_t>(token) * p.score_stride + key;
        if (quad == 0 && key < count + (SIMT_MUTANT(score_of_a_future_key) ? 1 : 0)) {
          *out = sum * key_scale[tile][half];
        } else if (quad == 0 && key < p.max_keys && p.write_masked) {
          *out = -INFINITY;
        }
      }
    }
  }
}

}  // namespace

void index_scores(Stream stream, const IndexScores& p) {
  if (p.tokens == 0 || p.max_keys == 0) return;
  const dim3 grid(ceil_div(p.max_keys, kBlockKeys), ceil_div(p.tokens, kBlockTokens));
  const auto run = [&](auto* kernel) { simt::launch_on(stream, kernel, grid, dim3(32 * kWarps), 0, p); };
  if (p.dims <= 32) return run(index_scores_kernel<1>);
  if (p.dims <= 64) return run(index_scores_kernel<2>);
  if (p.dims <= 128) return run(index_scores_kernel<4>);
  if (p.dims <= 256) return run(index_scores_kernel<8>);
  throw input_error("index_head_dim " + std::to_string(p.dims) +
                    ": the CUDA head has index keys of at most 256 entries.");
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
