// Grouped expert GEMMs for many tokens: tiles of 64 places of one expert × 128 weight rows on tensor cores.
//   in   x [T, H] bf16, experts [E, I, H] ×2 and [E, H, I] bf16 or E4M3      out  act [T·K, I] bf16, y [T·K, H] f32
//   FLOPs 6·I·H·T·K; at T = 1024 Hy4-preview has 0.62 TFLOP: 0.78 ms at 790 TFLOP/s; the experts' bytes, 19.3 GB in
//   bf16, take 4.0 ms at 4.8 TB/s: still bound by bandwidth below T = 5,000.
#include "cuda/kernels/linear/linear.h"
#include "cuda/kernels/linear/tile_product.h"
#include "cuda/kernels/moe/expert_range.h"
#include "cuda/kernels/moe/experts.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

namespace {

constexpr int kPairs = TileSums::kRowTiles / 2;  // of a gate fragment and its up fragment

/// Tile rows 0 … 63 are gate rows, 64 … 127 the up rows of the same channels.
template <class Row>
__global__ void __launch_bounds__(kTileThreads) experts_up_tiled_kernel(const __grid_constant__ ExpertsUp p) {
  SIMT_DYNAMIC_SHARED(unsigned char, memory);
  auto& shared = *reinterpret_cast<TileShared<Row>*>(memory);
  const ExpertRange range = range_of_tile(p.lists, static_cast<int>(blockIdx.y), kTileTokens, p.tokens);
  if (range.count == 0) return;
  const int first_row = static_cast<int>(blockIdx.x) * (kTileRows / 2);
  const int cols = p.gate.cols;
  TileSums result;
  tile_product<Row>(
      [&](int i) {
        return i < range.count ? p.x + static_cast<std::int64_t>(token_of_place(p.lists, range.first + i, p.top_k)) *
                                           row_stride(cols)
                               : nullptr;
      },
      [&](int i) { return Row::of(i < kTileRows / 2 ? p.gate : p.up, range.expert, first_row + i % (kTileRows / 2)); },
      cols, cols % 8 == 0, shared, result);

#pragma unroll
  for (int m = 0; m < TileSums::kTokenTiles; ++m) {
#pragma unroll
    for (int n = 0; n < kPairs; ++n) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int i = TileSums::token_of(m, j);
        const int row = first_row + TileSums::row_of(n, j);
        if (i >= range.count || row >= p.gate.rows) continue;
        p.act[static_cast<std::int64_t>(range.first + i) * row_stride(p.gate.rows) + row] =
            to_bf16(swiglu(result.sum[m][SIMT_MUTANT(gate_and_up_swapped) ? n + kPairs : n].x[j],
                           result.sum[m][SIMT_MUTANT(gate_and_up_swapped) ? n : n + kPairs].x[j], p.limit));
      }
    }
  }
}

template <class Row>
__global__ void __launch_bounds__(kTileThreads) experts_down_tiled_kernel(const __grid_constant__ ExpertsDown p) {
  SIMT_DYNAMIC_SHARED(unsigned char, memory);
  auto& shared = *reinterpret_cast<TileShared<Row>*>(memory);
  const ExpertRange range = range_of_tile(p.lists, static_cast<int>(blockIdx.y), kTileTokens, p.tokens);
  if (range.count == 0) return;
  const int first_row = static_cast<int>(blockIdx.x) * kTileRows;
  const int cols = p.down.cols;
  TileSums result;
  tile_product<Row>(
      [&](int i) {
        return i < range.count ? p.act + static_cast<std::int64_t>(range.first + i) * row_stride(cols) : nullptr;
      },
      [&](int i) { return Row::of(p.down, range.expert, first_row + i); }, cols, cols % 8 == 0, shared, result);

#pragma unroll
  for (int m = 0; m < TileSums::kTokenTiles; ++m) {
#pragma unroll
    for (int n = 0; n < TileSums::kRowTiles; ++n) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int i = TileSums::token_of(m, j);
        const int row = first_row + TileSums::row_of(n, j);
        if (i >= range.count || row >= p.down.rows) continue;
        p.y[static_cast<std::int64_t>(range.first + i) * row_stride(p.down.rows) + row] = result.sum[m][n].x[j];
      }
    }
  }
}

/// Tiles that any distribution of the pairs needs at most: the full ones, and one that is not full an expert.
int most_tiles(const ExpertLists& lists, int tokens, int top_k, int experts) {
  const int pairs = tokens * top_k;
  if (lists.offsets == nullptr) return ceil_div(pairs, kTileTokens);
  return pairs / kTileTokens + (pairs < experts ? pairs : experts);
}

template <class Row>
void up(Stream stream, const ExpertsUp& p) {
  const dim3 grid(ceil_div(p.gate.rows, kTileRows / 2), most_tiles(p.lists, p.tokens, p.top_k, p.experts));
  simt::launch_on(stream, experts_up_tiled_kernel<Row>, grid, dim3(kTileThreads), sizeof(TileShared<Row>), p);
}

template <class Row>
void down(Stream stream, const ExpertsDown& p) {
  const dim3 grid(ceil_div(p.down.rows, kTileRows), most_tiles(p.lists, p.tokens, p.top_k, p.experts));
  simt::launch_on(stream, experts_down_tiled_kernel<Row>, grid, dim3(kTileThreads), sizeof(TileShared<Row>), p);
}

}  // namespace

void experts_up_tiled(Stream stream, const ExpertsUp& p) {
  if (p.tokens == 0) return;
  switch (p.gate.format) {
    case WeightFormat::bf16:
      return up<Bf16Row>(stream, p);
    case WeightFormat::e4m3_f32:
      return up<Fp8BlockRow>(stream, p);
    case WeightFormat::e4m3_e8m0:
      return up<MxFp8Row>(stream, p);
  }
}

void experts_down_tiled(Stream stream, const ExpertsDown& p) {
  if (p.tokens == 0) return;
  switch (p.down.format) {
    case WeightFormat::bf16:
      return down<Bf16Row>(stream, p);
    case WeightFormat::e4m3_f32:
      return down<Fp8BlockRow>(stream, p);
    case WeightFormat::e4m3_e8m0:
      return down<MxFp8Row>(stream, p);
  }
}

void experts_up(Stream stream, const ExpertsUp& p) {
  if (p.tokens <= kStreamedTokens) {
    experts_up_streamed(stream, p);
  } else {
    experts_up_tiled(stream, p);
  }
}

void experts_down(Stream stream, const ExpertsDown& p) {
  if (p.tokens <= kStreamedTokens) {
    experts_down_streamed(stream, p);
  } else {
    experts_down_tiled(stream, p);
  }
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
