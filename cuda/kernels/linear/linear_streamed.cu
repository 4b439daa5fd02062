// Dense linear layer for few tokens: bound by the bytes of the weights.
//   in   x [T, C] bf16, W [R, C] bf16 or E4M3      out  y [T, R] bf16 or f32
//   bytes R·C·(2 or 1) + scales; at T ≤ 16 the floor of Hy4-preview's o_proj (6144 × 16384) is 201 MB: 42 µs at 4.8
//   TB/s in bf16, 21 µs in FP8. Tensor cores keep the arithmetic out of the way: 32 T FLOPs a weight pair would
//   saturate the FMA units at T = 8.
// Matrices that read the same x share a launch: small ones alone would leave multiprocessors idle.
#include "cuda/kernels/linear/linear.h"
#include "cuda/kernels/linear/row_stream.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

namespace {

template <int kTiles>
__device__ __host__ constexpr int blocks_of(const LinearSegment& segment) {
  return segment.matrices * ceil_div(segment.weight.rows, 16 * kTiles);
}

template <class Row, int kTiles, int kColumns>
__device__ void segment_rows(const Linear& p, const LinearSegment& segment, int block,
                             StreamShared<kTiles, kColumns>& shared) {
  const int blocks = ceil_div(segment.weight.rows, 16 * kTiles);
  const int matrix = block / blocks;
  const int first_row = block % blocks * 16 * kTiles;
  const int x_offset = segment.x_offset + matrix * segment.x_step;
  const int cols = segment.weight.cols;

  Row rows[kTiles][2];
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      rows[tile][half] = Row::of(segment.weight, matrix, first_row + 16 * tile + 8 * half + fragment_group());
    }
  }
  const bf16* tokens[kColumns];
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
    const int token = 8 * n + fragment_group();
    tokens[n] = token < p.tokens ? p.x + token * p.x_stride + x_offset : nullptr;
  }
  const bool whole = (x_offset | static_cast<int>(p.x_stride) | cols) % 8 == 0 && aligned16(p.x);
  stream_rows(rows, tokens, ceil_div(p.tokens, 8), cols, whole, shared);

  for (int i = static_cast<int>(threadIdx.x); i < 16 * kTiles * p.tokens; i += static_cast<int>(blockDim.x)) {
    const int row = i % (16 * kTiles);
    const int token = i / (16 * kTiles);
    if (first_row + row >= segment.weight.rows + (SIMT_MUTANT(streamed_row_too_many) ? 1 : 0)) continue;
    const float value = sum_of(shared, row, token);
    const std::int64_t at = token * segment.y_stride + matrix * segment.y_step + first_row + row;
    if (segment.y_f32 != nullptr) {
      segment.y_f32[at] = value;
    } else {
      segment.y[at] = to_bf16(value);
    }
  }
}

template <int kTiles, int kColumns>
__global__ void __launch_bounds__(32 * kStreamWarps) linear_streamed_kernel(const __grid_constant__ Linear p) {
  SIMT_DYNAMIC_SHARED(unsigned char, memory);
  auto& shared = *reinterpret_cast<StreamShared<kTiles, kColumns>*>(memory);
  int block = static_cast<int>(blockIdx.x);
  int s = 0;
  while (block >= blocks_of<kTiles>(p.segment[s])) block -= blocks_of<kTiles>(p.segment[s++]);
  const LinearSegment& segment = p.segment[s];
  switch (segment.weight.format) {
    case WeightFormat::bf16:
      return segment_rows<Bf16Row>(p, segment, block, shared);
    case WeightFormat::e4m3_f32:
      return segment_rows<Fp8BlockRow>(p, segment, block, shared);
    case WeightFormat::e4m3_e8m0:
      return segment_rows<MxFp8Row>(p, segment, block, shared);
  }
}

template <int kTiles, int kColumns>
void launch(Stream stream, const Linear& p) {
  int blocks = 0;
  for (int s = 0; s < p.segments; ++s) blocks += blocks_of<kTiles>(p.segment[s]);
  simt::launch_on(stream, linear_streamed_kernel<kTiles, kColumns>, dim3(blocks), dim3(32 * kStreamWarps),
                  sizeof(StreamShared<kTiles, kColumns>), p);
}

}  // namespace

void linear_streamed(Stream stream, const Linear& p) {
  if (p.tokens == 0) return;
  if (p.tokens <= 8) return launch<1, 1>(stream, p);
  if (p.tokens <= 16) return launch<2, 2>(stream, p);
  return launch<2, 4>(stream, p);
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
