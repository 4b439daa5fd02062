// Sparse MLA over gathered latents, absorbed, with online softmax and sinks; decode and prefill.
//   in   query [T, N, Lkv + r], cache [S, Lkv + r] bf16, indices [T, k]      out  [T, N, Lkv] bf16
//   bytes T·k·(Lkv + r)·2; Hy4-preview: 2.36 MB a token, 0.49 µs at 4.8 TB/s; FLOPs 2·T·N·k·(2·Lkv + r): 0.29 GFLOP a
//   token, 0.36 µs at 790 TFLOP/s.
// A block takes up to 64 heads of one token, so a gathered latent is read once for all of them, and a share of its keys
// in tiles of 32, the next tile on its way while one is in use. Two warps work on 16 heads: in the logits each takes
// half of the keys, in the output half of the latent.
#include <string>

#include "cuda/kernels/attention/key_selection.h"
#include "cuda/kernels/attention/sparse_attention.h"
#include "cuda/kernels/norm/latent.h"
#include "cuda/kernels/numeric/bfloat.h"
#include "cuda/kernels/numeric/fragments.h"
#include "cuda/kernels/numeric/reduce.h"
#include "cuda/kernels/numeric/rows.h"
#include "cuda/simt/memory.h"
#include "reference/tensor/error.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

namespace {

constexpr int kKeys = 32;  // of a tile
constexpr int kProbabilityStride = kKeys + 8;

/// Rows of queries and keys in shared memory, 16 bytes apart in banks, so that ldmatrix meets no conflict.
constexpr int shared_stride(int stride) { return stride + 8; }

template <int kHeadTiles>
std::size_t shared_bytes(int stride) {
  const int rows = 16 * kHeadTiles + 2 * kKeys;
  return static_cast<std::size_t>(rows * shared_stride(stride) + 16 * kHeadTiles * kProbabilityStride) * sizeof(bf16);
}

/// Row and column that the lane addresses for ldmatrix.x4 of a 16 × 16 block, by the order of the four 8 × 8 matrices.
__device__ inline int matrix_row_first(int lane) {
  return lane % 8 + 8 * (lane / 8 % 2);
}  // rows 0, 8 of columns 0, then 8
__device__ inline int matrix_column_last(int lane) { return 8 * (lane / 16); }
__device__ inline int matrix_row_last(int lane) {
  return lane % 8 + 8 * (lane / 16);
}  // columns 0, 8 of rows 0, then 8
__device__ inline int matrix_column_first(int lane) { return 8 * (lane / 8 % 2); }

/// exp(a − b) with exp(−∞ − −∞) = 0.
__device__ inline float exp_difference(float a, float b) { return a == -INFINITY ? 0.0f : expf(a - b); }

/// kLatentPairs: 16-column steps of the latent that a warp holds, at least half of all.
template <int kHeadTiles, int kLatentPairs>
__global__ void __launch_bounds__(64 * kHeadTiles, 1)
    sparse_attention_kernel(const __grid_constant__ SparseAttention p) {
  SIMT_DYNAMIC_SHARED(bf16, memory);
  SIMT_SHARED(float, tile_max, 2, 16 * kHeadTiles);
  SIMT_SHARED(float, half_sum, 2, 16 * kHeadTiles);
  const LatentLayout layout(p.kv_rank, p.rope);
  const int stride = shared_stride(layout.stride);
  bf16* const queries = memory;                           // [16·kHeadTiles, stride]
  bf16* const keys = queries + 16 * kHeadTiles * stride;  // [2, kKeys, stride]
  bf16* const probabilities = keys + 2 * kKeys * stride;  // [16·kHeadTiles, kProbabilityStride]

  const std::int64_t token = blockIdx.x;
  const int first_head = static_cast<int>(blockIdx.y) * 16 * kHeadTiles;
  const int split = static_cast<int>(blockIdx.z);
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const int lane = lane_id();
  const int group = fragment_group();
  const int quad = fragment_quad();
  const int side = warp_id() % 2;
  const int tile_head = warp_id() / 2 * 16;  // the warp's first head within the block

  const KeySelection selection(p, token);
  const std::int64_t base = p.key_bases[token];
  const int share = round_up(ceil_div(selection.count, p.splits), kKeys);
  const int first_key = split * share;
  const int last_key = min(selection.count, first_key + share);
  const int pieces = layout.stride / 8;

  const auto start_tile = [&](int tile) {
    bf16* const to = keys + tile % 2 * kKeys * stride;
    for (int i = thread; i < kKeys * pieces; i += threads) {
      const int j = first_key + tile * kKeys + i / pieces;
      const int key = j < last_key ? selection.key(j) : -1;
      simt::copy_async_or_zero<16>(to + i / pieces * stride + i % pieces * 8,
                                   p.cache + (base + (key < 0 ? 0 : key)) * layout.stride + i % pieces * 8, key >= 0);
    }
  };
  for (int i = thread; i < 16 * kHeadTiles * pieces; i += threads) {
    const int head = first_head + i / pieces;
    simt::copy_async_or_zero<16>(
        queries + i / pieces * stride + i % pieces * 8,
        p.query + (token * p.heads + (head < p.heads ? head : 0)) * layout.stride + i % pieces * 8, head < p.heads);
  }
  const int tiles = first_key < last_key ? ceil_div(last_key - first_key, kKeys) : 0;
  if (tiles > 0) start_tile(0);
  simt::commit_copies();

  const int all_pairs = layout.latent / 16;
  const int first_pair = side == 0 ? 0 : (all_pairs + 1) / 2;
  const int pairs = side == 0 ? (all_pairs + 1) / 2 : all_pairs / 2;
  simt::FragmentD out[kLatentPairs][2] = {};
  float row_max[2] = {-INFINITY, -INFINITY};  // of heads group and group + 8
  float row_sum[2] = {};                      // over this warp's keys only

  for (int tile = 0; tile < tiles; ++tile) {
    simt::wait_for_copies<0>();
    if (!SIMT_MUTANT(key_tile_without_barrier))
      __syncthreads();  // the tile is there, and nobody reads the other buffer any more
    if (tile + 1 < tiles) start_tile(tile + 1);
    simt::commit_copies();
    const bf16* const key_tile = keys + tile % 2 * kKeys * stride;

    // Logits of 16 heads × 16 keys.
    simt::FragmentD logit[2] = {};
    for (int k = 0; k < layout.stride; k += 16) {
      simt::FragmentA a;
      simt::FragmentA b;
      simt::load_matrices(a, queries + (tile_head + matrix_row_first(lane)) * stride + k + matrix_column_last(lane));
      simt::load_matrices(b, key_tile + (16 * side + matrix_row_last(lane)) * stride + k + matrix_column_first(lane));
      simt::mma_bf16(logit[0], a, simt::FragmentB{{b.x[0], b.x[1]}});
      simt::mma_bf16(logit[1], a, simt::FragmentB{{b.x[2], b.x[3]}});
    }
    float largest[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int at = first_key + tile * kKeys + 16 * side + 8 * n + 2 * quad + (j & 1);
        const bool selected = at < last_key && selection.key(at) >= 0;
        logit[n].x[j] = selected ? logit[n].x[j] * p.scale : -INFINITY;
        largest[j / 2] = fmaxf(largest[j / 2], logit[n].x[j]);
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      largest[i] = fmaxf(largest[i], __shfl_xor_sync(~0u, largest[i], 1));
      largest[i] = fmaxf(largest[i], __shfl_xor_sync(~0u, largest[i], 2));
      if (quad == 0) tile_max[side][tile_head + 8 * i + group] = largest[i];
    }
    if (!SIMT_MUTANT(tile_maximum_without_barrier)) __syncthreads();

    float correction[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int head = tile_head + 8 * i + group;
      const float now = fmaxf(row_max[i], fmaxf(tile_max[0][head], tile_max[1][head]));
      correction[i] = SIMT_MUTANT(softmax_without_rescaling) ? 1.0f : exp_difference(row_max[i], now);
      row_max[i] = now;
      row_sum[i] *= correction[i];
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const float first = exp_difference(logit[n].x[2 * i], now);
        const float second = exp_difference(logit[n].x[2 * i + 1], now);
        row_sum[i] += first + second;
        *reinterpret_cast<std::uint32_t*>(probabilities + head * kProbabilityStride + 16 * side + 8 * n + 2 * quad) =
            pack_bf16(first, second);
      }
    }
    __syncthreads();

    // 16 heads × this warp's columns of the latent.
#pragma unroll
    for (int pair = 0; pair < kLatentPairs; ++pair) {
#pragma unroll
      for (int n = 0; n < 2; ++n) {
#pragma unroll
        for (int j = 0; j < 4; ++j) out[pair][n].x[j] *= correction[j / 2];
      }
    }
#pragma unroll
    for (int k = 0; k < kKeys; k += 16) {
      simt::FragmentA a;
      simt::load_matrices(
          a, probabilities + (tile_head + matrix_row_first(lane)) * kProbabilityStride + k + matrix_column_last(lane));
#pragma unroll
      for (int pair = 0; pair < kLatentPairs; ++pair) {
        if (pair >= pairs) break;
        simt::FragmentA b;
        simt::load_matrices_transposed(
            b, key_tile + (k + matrix_row_first(lane)) * stride + 16 * (first_pair + pair) + matrix_column_last(lane));
        simt::mma_bf16(out[pair][0], a, simt::FragmentB{{b.x[0], b.x[1]}});
        simt::mma_bf16(out[pair][1], a, simt::FragmentB{{b.x[2], b.x[3]}});
      }
    }
  }

#pragma unroll
  for (int i = 0; i < 2; ++i) {
    row_sum[i] += __shfl_xor_sync(~0u, row_sum[i], 1);
    row_sum[i] += __shfl_xor_sync(~0u, row_sum[i], 2);
    if (quad == 0) half_sum[side][tile_head + 8 * i + group] = row_sum[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int head = first_head + tile_head + 8 * i + group;
    if (head >= p.heads) continue;
    const float sum = half_sum[0][tile_head + 8 * i + group] + half_sum[1][tile_head + 8 * i + group];
    const std::int64_t row = (token * p.splits + split) * p.heads + head;
    float factor = 1;
    if (p.splits == 1) {
      const float sink = p.sink == nullptr || SIMT_MUTANT(sink_dropped) ? -INFINITY : p.sink[head];
      const float largest = fmaxf(row_max[i], sink);
      const float weight = exp_difference(row_max[i], largest);
      const float divisor = sum * weight + exp_difference(sink, largest);
      factor = divisor == 0.0f ? 0.0f : weight / divisor;
    } else if (side == 0 && quad == 0) {
      p.partial_sums[2 * row] = row_max[i];
      p.partial_sums[2 * row + 1] = sum;
    }
#pragma unroll
    for (int pair = 0; pair < kLatentPairs; ++pair) {
      if (pair >= pairs) break;
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const std::int64_t at = row * layout.latent + 16 * (first_pair + pair) + 8 * n + 2 * quad;
        const float first = out[pair][n].x[2 * i] * factor;
        const float second = out[pair][n].x[2 * i + 1] * factor;
        if (p.splits == 1) {
          *reinterpret_cast<std::uint32_t*>(p.out + at) = pack_bf16(first, second);
        } else {
          *reinterpret_cast<float2*>(p.partial + at) = float2{first, second};
        }
      }
    }
  }
}

/// The splits' results brought to one maximum and added, in order. One block a token and head.
__global__ void merge_splits_kernel(const __grid_constant__ SparseAttention p) {
  const LatentLayout layout(p.kv_rank, p.rope);
  const std::int64_t token = blockIdx.x;
  const int head = static_cast<int>(blockIdx.y);
  const auto row = [&](int split) { return (token * p.splits + split) * p.heads + head; };
  const float sink = p.sink == nullptr ? -INFINITY : p.sink[head];
  float largest = sink;
  for (int s = 0; s < p.splits; ++s) largest = fmaxf(largest, p.partial_sums[2 * row(s)]);
  float divisor = exp_difference(sink, largest);
  for (int s = 0; s < p.splits; ++s) {
    divisor += p.partial_sums[2 * row(s) + 1] * exp_difference(p.partial_sums[2 * row(s)], largest);
  }
  for (int i = static_cast<int>(threadIdx.x); i < layout.latent; i += static_cast<int>(blockDim.x)) {
    float sum = 0;
    for (int s = 0; s < p.splits; ++s) {
      const float weight = exp_difference(p.partial_sums[2 * row(s)], largest);
      sum += weight * p.partial[row(s) * layout.latent + i];
    }
    p.out[(token * p.heads + head) * layout.latent + i] = to_bf16(divisor == 0.0f ? 0.0f : sum / divisor);
  }
}

template <int kHeadTiles, int kLatentPairs>
void launch(Stream stream, const SparseAttention& p) {
  const LatentLayout layout(p.kv_rank, p.rope);
  simt::launch_on(stream, sparse_attention_kernel<kHeadTiles, kLatentPairs>,
                  dim3(p.tokens, ceil_div(p.heads, 16 * kHeadTiles), p.splits), dim3(64 * kHeadTiles),
                  shared_bytes<kHeadTiles>(layout.stride), p);
}

template <int kLatentPairs>
void launch_heads(Stream stream, const SparseAttention& p) {
  if (p.heads <= 16) return launch<1, kLatentPairs>(stream, p);
  if (p.heads <= 32) return launch<2, kLatentPairs>(stream, p);
  return launch<4, kLatentPairs>(stream, p);
}

}  // namespace

int attention_splits(int tokens, int heads, int keys, int multiprocessors) {
  const int blocks = tokens * ceil_div(heads, 64);
  const int most = ceil_div(keys, 2 * kKeys);
  const int wanted = blocks == 0 ? 1 : multiprocessors / blocks;
  return wanted < 1 || most < 1 ? 1 : wanted < most ? wanted : most;
}

void sparse_attention(Stream stream, const SparseAttention& p) {
  if (p.tokens == 0) return;
  const LatentLayout layout(p.kv_rank, p.rope);
  if (layout.latent <= 64) {
    launch_heads<2>(stream, p);
  } else if (layout.latent <= 128) {
    launch_heads<4>(stream, p);
  } else if (layout.latent <= 256) {
    launch_heads<8>(stream, p);
  } else if (layout.latent <= 512) {
    launch_heads<16>(stream, p);
  } else {
    throw input_error("kv_lora_rank " + std::to_string(p.kv_rank) +
                      ": the CUDA head attends to latents of at most 512.");
  }
  if (p.splits > 1) simt::launch_on(stream, merge_splits_kernel, dim3(p.tokens, p.heads), dim3(64), 0, p);
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
