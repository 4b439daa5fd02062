// Dense linear layer for many tokens: tiles of 64 tokens × 128 weight rows on tensor cores, every weight format.
//   in   x [T, C] bf16, W [R, C] bf16 or E4M3      out  y [T, R] bf16 or f32
//   FLOPs 2·T·R·C; at T = 1024 Hy4-preview's o_proj (6144 × 16384) is 206 GFLOP: 0.26 ms at 790 TFLOP/s.
// In bf16 the device's dense layers go through cuBLASLt instead; this form is for quantised weights and for emulation.
#include "cuda/kernels/linear/linear.h"
#include "cuda/kernels/linear/tile_product.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

namespace {

template <class Row>
__device__ void tiled_segment(const Linear& p, const LinearSegment& segment, int block, TileShared<Row>& shared) {
  const int blocks = ceil_div(segment.weight.rows, kTileRows);
  const int matrix = block / blocks;
  const int first_row = block % blocks * kTileRows;
  const int first_token = static_cast<int>(blockIdx.y) * kTileTokens;
  const int x_offset = segment.x_offset + matrix * segment.x_step;
  const int cols = segment.weight.cols;
  const bool whole = (x_offset | static_cast<int>(p.x_stride) | cols) % 8 == 0 && aligned16(p.x);

  TileSums result;
  tile_product<Row>(
      [&](int i) {
        const std::int64_t token = first_token + i;
        return token < p.tokens ? p.x + token * p.x_stride + x_offset : nullptr;
      },
      [&](int i) { return Row::of(segment.weight, matrix, first_row + i); }, cols, whole, shared, result);

#pragma unroll
  for (int m = 0; m < TileSums::kTokenTiles; ++m) {
#pragma unroll
    for (int n = 0; n < TileSums::kRowTiles; ++n) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const std::int64_t token = first_token + TileSums::token_of(m, j);
        const int row = first_row + TileSums::row_of(n, j);
        if (token >= p.tokens + (SIMT_MUTANT(tiled_token_too_many) ? 1 : 0) || row >= segment.weight.rows) continue;
        const std::int64_t at = token * segment.y_stride + matrix * segment.y_step + row;
        if (segment.y_f32 != nullptr) {
          segment.y_f32[at] = result.sum[m][n].x[j];
        } else {
          segment.y[at] = to_bf16(result.sum[m][n].x[j]);
        }
      }
    }
  }
}

__device__ __host__ constexpr int blocks_of(const LinearSegment& segment) {
  return segment.matrices * ceil_div(segment.weight.rows, kTileRows);
}

__global__ void __launch_bounds__(kTileThreads) linear_tiled_kernel(const __grid_constant__ Linear p) {
  SIMT_DYNAMIC_SHARED(unsigned char, memory);
  int block = static_cast<int>(blockIdx.x);
  int s = 0;
  while (block >= blocks_of(p.segment[s])) block -= blocks_of(p.segment[s++]);
  const LinearSegment& segment = p.segment[s];
  switch (segment.weight.format) {
    case WeightFormat::bf16:
      return tiled_segment(p, segment, block, *reinterpret_cast<TileShared<Bf16Row>*>(memory));
    case WeightFormat::e4m3_f32:
      return tiled_segment(p, segment, block, *reinterpret_cast<TileShared<Fp8BlockRow>*>(memory));
    case WeightFormat::e4m3_e8m0:
      return tiled_segment(p, segment, block, *reinterpret_cast<TileShared<MxFp8Row>*>(memory));
  }
}

}  // namespace

void linear_tiled(Stream stream, const Linear& p) {
  if (p.tokens == 0) return;
  int blocks = 0;
  for (int s = 0; s < p.segments; ++s) blocks += blocks_of(p.segment[s]);
  simt::launch_on(stream, linear_tiled_kernel, dim3(blocks, ceil_div(p.tokens, kTileTokens)), dim3(kTileThreads),
                  sizeof(TileShared<Bf16Row>), p);
}

void linear(Stream stream, const Linear& p) {
  if (p.tokens <= kStreamedTokens) {
    linear_streamed(stream, p);
  } else {
    linear_tiled(stream, p);
  }
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
