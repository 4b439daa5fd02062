#pragma once

#include "cuda/kernels/linear/weight_rows.h"
#include "cuda/kernels/numeric/reduce.h"
#include "cuda/kernels/numeric/rows.h"
#include "cuda/simt/memory.h"

/// The large-T product: a block computes 64 tokens times 128 weight rows through shared memory, three stages of 64
/// columns in flight. Tokens are A, weight rows are B.
///
/// Each of the four warps computes all tokens times 32 weight rows, so that a weight is decoded once in a block: 16 of
/// rows 0 … 63 and their partners of rows 64 … 127, so that a gate row and its up row meet in one thread.
namespace mtpcheck::cuda::inline SIMT_BACKEND {

constexpr int kTileTokens = 64;
constexpr int kTileRows = 128;
constexpr int kTileThreads = 128;
constexpr int kTileStages = 3;

template <class Row>
struct TileShared {
  // Two panes of 32 columns: a row of a pane is 64 bytes, and eight lanes' 16-byte reads touch every bank once.
  alignas(16) bf16 tokens[kTileStages][2][kTileTokens][32];
  alignas(16) typename Row::Element weights[kTileStages][2][kTileRows][32];
  float scales[kTileStages][2][Row::kScaled ? kTileRows : 1];
  unsigned nan_rows[kTileRows];
};

/// The sums of one lane: value j of sum[m][n] is token token_of(m, j) and weight row row_of(n, j) of the tile.
struct TileSums {
  static constexpr int kTokenTiles = kTileTokens / 16;
  static constexpr int kRowTiles = kTileRows / 8 / (kTileThreads / 32);
  simt::FragmentD sum[kTokenTiles][kRowTiles];

  __device__ static int token_of(int m, int j) { return 16 * m + 8 * (j / 2) + fragment_group(); }
  __device__ static int first_row_of(int n) { return n / 2 * 64 + warp_id() * 16 + n % 2 * 8; }
  __device__ static int row_of(int n, int j) { return first_row_of(n) + 2 * fragment_quad() + (j & 1); }
};

/// token_row(i), weight_row(i): the rows of the tile; nullptr and Row{} beyond the end. `whole`: token rows start at 16
/// bytes and cols is a multiple of 8. All threads of the block must call it, and none may read `shared` before.
template <class Row, class TokenRow, class WeightRow>
__device__ void tile_product(const TokenRow& token_row, const WeightRow& weight_row, int cols, bool whole,
                             TileShared<Row>& shared, TileSums& result) {
  constexpr int kRowPieces = 64 * static_cast<int>(sizeof(typename Row::Element)) / 16;  // of 16 bytes a stage and row
  constexpr int kElements = 16 / static_cast<int>(sizeof(typename Row::Element));
  constexpr int kRowStep = kTileThreads / kRowPieces;
  constexpr int kWeightRows = kTileRows / kRowStep;
  constexpr int kTokenRows = kTileTokens / 16;
  const int thread = static_cast<int>(threadIdx.x);
  const int stages = ceil_div(cols, 64);
  const int weight_cols = weight_stride(cols);

  const bf16* token[kTokenRows];
#pragma unroll
  for (int i = 0; i < kTokenRows; ++i) token[i] = token_row(16 * i + thread / 8);
  const typename Row::Element* weight[kWeightRows];
#pragma unroll
  for (int i = 0; i < kWeightRows; ++i) weight[i] = weight_row(kRowStep * i + thread / kRowPieces).data;
  const Row scaled_row = weight_row(thread);  // the row whose scales this thread fetches
  shared.nan_rows[thread] = 0;

  const auto start_stage = [&](int stage) {
    const int buffer = stage % kTileStages;
    const int token_part = thread % 8;
    const int k = 64 * stage + 8 * token_part;
#pragma unroll
    for (int i = 0; i < kTokenRows; ++i) {
      bf16* const to = shared.tokens[buffer][token_part / 4][16 * i + thread / 8] + token_part % 4 * 8;
      if (whole) {
        simt::copy_async_or_zero<16>(to, token[i] + k, token[i] != nullptr && k < cols);
      } else {
        *reinterpret_cast<uint4*>(to) = token[i] == nullptr ? uint4{0, 0, 0, 0} : load8_bits(token[i] + k, cols - k);
      }
    }
    const int part = thread % kRowPieces;
    const int column = 64 * stage + kElements * part;
#pragma unroll
    for (int i = 0; i < kWeightRows; ++i) {
      auto* const to = shared.weights[buffer][part / (kRowPieces / 2)][kRowStep * i + thread / kRowPieces] +
                       part % (kRowPieces / 2) * kElements;
      simt::copy_async_or_zero<16>(to, weight[i] + column, weight[i] != nullptr && column < weight_cols);
    }
  };
  float next_scale[2] = {};
  const auto fetch_scales = [&](int stage) {
    if constexpr (Row::kScaled) {
#pragma unroll
      for (int pane = 0; pane < 2; ++pane) {
        const int column = 64 * stage + 32 * pane;
        next_scale[pane] = column < cols ? scaled_row.scale(column) : 0.0f;
      }
    }
  };
  const auto keep_scales = [&](int stage) {
    if constexpr (Row::kScaled) {
#pragma unroll
      for (int pane = 0; pane < 2; ++pane) shared.scales[stage % kTileStages][pane][thread] = next_scale[pane];
    }
  };

#pragma unroll
  for (auto& row : result.sum) {
#pragma unroll
    for (auto& fragment : row) fragment = {};
  }
  for (int stage = 0; stage < kTileStages - 1; ++stage) {
    if (stage < stages) {
      start_stage(stage);
      fetch_scales(stage);
      keep_scales(stage);
    }
    simt::commit_copies();
  }
  std::uint32_t nan_seen[TileSums::kRowTiles] = {};
  for (int stage = 0; stage < stages; ++stage) {
    if (SIMT_MUTANT(tile_waits_for_too_few_copies)) {
      simt::wait_for_copies<kTileStages - 1>();
    } else {
      simt::wait_for_copies<kTileStages - 2>();
    }
    if (!SIMT_MUTANT(tile_without_barrier)) __syncthreads();
    const int next = stage + kTileStages - (SIMT_MUTANT(tile_overtakes_its_ring) ? 0 : 1);
    if (next < stages) {
      start_stage(next);
      fetch_scales(next);
    }
    simt::commit_copies();

    const int buffer = stage % kTileStages;
#pragma unroll
    for (int pane = 0; pane < 2; ++pane) {
      uint4 b[TileSums::kRowTiles];
      float scale[TileSums::kRowTiles][2];
#pragma unroll
      for (int n = 0; n < TileSums::kRowTiles; ++n) {
        const int row = TileSums::first_row_of(n) + fragment_group();
        const auto raw =
            *reinterpret_cast<const typename Row::Raw*>(shared.weights[buffer][pane][row] + 8 * fragment_quad());
        b[n] = Row::decode(raw);
        if constexpr (Row::kScaled) {
          nan_seen[n] |= Row::nan_bits(raw);
          scale[n][0] = shared.scales[buffer][pane][TileSums::row_of(n, 0)];
          scale[n][1] = shared.scales[buffer][pane][TileSums::row_of(n, 1)];
        }
      }
#pragma unroll
      for (int m = 0; m < TileSums::kTokenTiles; ++m) {
        const bf16* const part = shared.tokens[buffer][pane][TileSums::token_of(m, 0)] + 8 * fragment_quad();
        const uint4 low = *reinterpret_cast<const uint4*>(part);
        const uint4 high = *reinterpret_cast<const uint4*>(part + 8 * 32);
#pragma unroll
        for (int n = 0; n < TileSums::kRowTiles; ++n) {
          if constexpr (Row::kScaled) {
            simt::FragmentD product = {};
            mma_step32(product, low, high, b[n]);
#pragma unroll
            for (int j = 0; j < 4; ++j) result.sum[m][n].x[j] += product.x[j] * scale[n][j & 1];
          } else {
            mma_step32(result.sum[m][n], low, high, b[n]);
          }
        }
      }
    }
    if (next < stages) keep_scales(next);
  }

  if constexpr (Row::kScaled) {
#pragma unroll
    for (int n = 0; n < TileSums::kRowTiles; ++n) {
      if (nan_seen[n] != 0) atomicOr(&shared.nan_rows[TileSums::first_row_of(n) + fragment_group()], 1u);
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < TileSums::kRowTiles; ++n) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (shared.nan_rows[TileSums::row_of(n, j)] == 0) continue;
#pragma unroll
        for (auto& row : result.sum) row[n].x[j] = NAN;
      }
    }
  }
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
