#pragma once

#include "cuda/kernels/linear/weight_rows.h"
#include "cuda/kernels/numeric/reduce.h"
#include "cuda/kernels/numeric/rows.h"

/// The small-T product: weights stream from memory through registers into tensor cores, once for all tokens.
///
/// A block computes 16·kTiles weight rows times 8·kColumns tokens. Weight rows are A, tokens are B, and the block's
/// warps share the columns (k) among them; partial sums meet in shared memory, in a fixed order.
namespace mtpcheck::cuda::inline SIMT_BACKEND {

constexpr int kStreamWarps = 8;

template <int kTiles, int kColumns>
struct StreamShared {
  float sums[kStreamWarps][16 * kTiles][8 * kColumns];
};

/// Entries k … k+7 of a token's row. `whole`: rows start at 16 bytes and cols is a multiple of 8.
__device__ inline uint4 load_token(const bf16* row, int k, int cols, bool whole) {
  if (row == nullptr || k >= cols) return uint4{0, 0, 0, 0};
  return whole ? *reinterpret_cast<const uint4*>(row + k) : load8_bits(row + k, cols - k);
}

/// rows[tile][half]: the lane's weight row g + 8·half of each tile. tokens[n]: the lane's token, column g of 8 columns;
/// nullptr: none. Only the first `columns` of them are computed. All threads of the block must call it; `shared` is
/// complete on return, to be read as sum_of(shared, row, token).
template <class Row, int kTiles, int kColumns>
__device__ void stream_rows(const Row (&rows)[kTiles][2], const bf16* const (&tokens)[kColumns], int columns, int cols,
                            bool whole, StreamShared<kTiles, kColumns>& shared) {
  constexpr int kDepth = 4 / kTiles > 0 ? 4 / kTiles : 1;  // steps whose weights are in flight together
  const int steps = ceil_div(cols, 32);
  const int quad = fragment_quad();
  simt::FragmentD sum[kTiles][kColumns] = {};
  std::uint32_t nan_seen[kTiles][2] = {};

  for (int first = warp_id() * kDepth; first < steps; first += kStreamWarps * kDepth) {
    typename Row::Raw raw[kDepth][kTiles][2];
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          raw[i][tile][half] =
              first + i < steps ? rows[tile][half].load(32 * (first + i) + 8 * quad) : typename Row::Raw{};
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      if (first + i >= steps) break;
      const int k = 32 * (first + i);
      uint4 token[kColumns] = {};
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        if (n < columns) token[n] = load_token(tokens[n], k + 8 * quad, cols, whole);
      }
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const uint4 low = Row::decode(raw[i][tile][0]);
        const uint4 high = Row::decode(raw[i][tile][1]);
        nan_seen[tile][0] |= Row::nan_bits(raw[i][tile][0]);
        nan_seen[tile][1] |= Row::nan_bits(raw[i][tile][1]);
        const float scale[2] = {rows[tile][0].scale(k), rows[tile][1].scale(k)};
#pragma unroll
        for (int n = 0; n < kColumns; ++n) {
          if (n >= columns) continue;
          if constexpr (Row::kScaled) {
            simt::FragmentD part = SIMT_MUTANT(stale_accumulator) ? sum[tile][n] : simt::FragmentD{};
            mma_step32(part, low, high, token[n]);
#pragma unroll
            for (int j = 0; j < 4; ++j) sum[tile][n].x[j] += part.x[j] * scale[j / 2];
          } else {
            mma_step32(sum[tile][n], low, high, token[n]);
          }
        }
      }
    }
  }

#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      bool nan = false;
      if constexpr (Row::kScaled) {
        std::uint32_t seen = nan_seen[tile][half];
        seen |= __shfl_xor_sync(~0u, seen, 1);
        seen |= __shfl_xor_sync(~0u, seen, 2);
        nan = seen != 0;
      }
      float(&row)[8 * kColumns] = shared.sums[warp_id()][16 * tile + 8 * half + fragment_group()];
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        row[8 * n + 2 * quad] = nan ? NAN : sum[tile][n].x[2 * half];
        row[8 * n + 2 * quad + 1] = nan ? NAN : sum[tile][n].x[2 * half + 1];
      }
    }
  }
  if (!SIMT_MUTANT(partial_sums_without_barrier)) __syncthreads();
}

template <int kTiles, int kColumns>
__device__ float sum_of(const StreamShared<kTiles, kColumns>& shared, int row, int token) {
  float sum = 0;
#pragma unroll
  for (const auto& part : shared.sums) sum += part[row][token];
  return sum;
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
