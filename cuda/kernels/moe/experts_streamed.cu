// Grouped expert GEMMs for few tokens: only the experts in use are read, each once.
//   in   x [T, H] bf16, experts [E, I, H] ×2 and [E, H, I] bf16 or E4M3      out  act [T·K, I] bf16, y [T·K, H] f32
//   bytes 3·I·H·(2 or 1) an expert in use; Hy4-preview: 75.5 MB in bf16, 37.7 MB in FP8. T = 1 uses 8 experts: 604 MB,
//   126 µs at 4.8 TB/s; T = 16 about 102 of 256: 7.7 GB, 1.6 ms. FLOPs 6·I·H a pair: 1.2 % of the tensor cores' rate at
//   T = 16.
// A block takes 16 gate rows with their 16 up rows, or 32 down rows, of one expert in use, and all of its tokens.
#include "cuda/kernels/linear/linear.h"
#include "cuda/kernels/linear/row_stream.h"
#include "cuda/kernels/moe/expert_range.h"
#include "cuda/kernels/moe/experts.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

namespace {

template <class Row, int kColumns>
__global__ void __launch_bounds__(32 * kStreamWarps, 1) experts_up_kernel(const __grid_constant__ ExpertsUp p) {
  SIMT_DYNAMIC_SHARED(unsigned char, memory);
  auto& shared = *reinterpret_cast<StreamShared<2, kColumns>*>(memory);
  const ExpertRange range = range_of_slot(p.lists, static_cast<int>(blockIdx.y), p.tokens);
  const int first_row = static_cast<int>(blockIdx.x) * 16;
  const int cols = p.gate.cols;
  Row rows[2][2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    rows[0][half] = Row::of(p.gate, range.expert, first_row + 8 * half + fragment_group());
    rows[1][half] = Row::of(p.up, range.expert, first_row + 8 * half + fragment_group());
  }
  // An expert has at most p.tokens places, for which kColumns is chosen: one turn.
  const bf16* tokens[kColumns];
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
    const int i = 8 * n + fragment_group();
    tokens[n] = i < range.count ? p.x + static_cast<std::int64_t>(token_of_place(p.lists, range.first + i, p.top_k)) *
                                            row_stride(cols)
                                : nullptr;
  }
  if (range.count == 0) return;
  stream_rows(rows, tokens, ceil_div(range.count, 8), cols, cols % 8 == 0, shared);
  for (int i = static_cast<int>(threadIdx.x); i < 16 * range.count; i += static_cast<int>(blockDim.x)) {
    const int row = i % 16;
    const int token = i / 16;
    if (first_row + row >= p.gate.rows) continue;
    const float value = swiglu(sum_of(shared, row, token), sum_of(shared, 16 + row, token), p.limit);
    p.act[static_cast<std::int64_t>(range.first + token) * row_stride(p.gate.rows) + first_row + row] = to_bf16(value);
  }
}

template <class Row, int kColumns>
__global__ void __launch_bounds__(32 * kStreamWarps, 1) experts_down_kernel(const __grid_constant__ ExpertsDown p) {
  SIMT_DYNAMIC_SHARED(unsigned char, memory);
  auto& shared = *reinterpret_cast<StreamShared<2, kColumns>*>(memory);
  const ExpertRange range = range_of_slot(p.lists, static_cast<int>(blockIdx.y), p.tokens);
  const int first_row = static_cast<int>(blockIdx.x) * 32;
  const int cols = p.down.cols;
  Row rows[2][2];
#pragma unroll
  for (int tile = 0; tile < 2; ++tile) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      rows[tile][half] = Row::of(p.down, range.expert, first_row + 16 * tile + 8 * half + fragment_group());
    }
  }
  const bf16* places[kColumns];
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
    const int i = 8 * n + fragment_group();
    places[n] = i < range.count ? p.act + static_cast<std::int64_t>(range.first + i) * row_stride(cols) : nullptr;
  }
  if (range.count == 0) return;
  stream_rows(rows, places, ceil_div(range.count, 8), cols, cols % 8 == 0, shared);
  for (int i = static_cast<int>(threadIdx.x); i < 32 * range.count; i += static_cast<int>(blockDim.x)) {
    const int row = i % 32;
    const int place = i / 32;
    if (first_row + row >= p.down.rows) continue;
    p.y[static_cast<std::int64_t>(range.first + place) * row_stride(p.down.rows) + first_row + row] =
        sum_of(shared, row, place);
  }
}

int slots_of(const ExpertLists& lists, int tokens, int top_k, int experts) {
  if (lists.offsets == nullptr) return 1;
  const int pairs = tokens * top_k;
  return pairs < experts ? pairs : experts;
}

template <class Row, int kColumns>
void launch_up(Stream stream, const ExpertsUp& p) {
  const dim3 grid(ceil_div(p.gate.rows, 16), slots_of(p.lists, p.tokens, p.top_k, p.experts));
  simt::launch_on(stream, experts_up_kernel<Row, kColumns>, grid, dim3(32 * kStreamWarps),
                  sizeof(StreamShared<2, kColumns>), p);
}

template <class Row, int kColumns>
void launch_down(Stream stream, const ExpertsDown& p) {
  const dim3 grid(ceil_div(p.down.rows, 32), slots_of(p.lists, p.tokens, p.top_k, p.experts));
  simt::launch_on(stream, experts_down_kernel<Row, kColumns>, grid, dim3(32 * kStreamWarps),
                  sizeof(StreamShared<2, kColumns>), p);
}

template <class Row>
void experts_up_of(Stream stream, const ExpertsUp& p) {
  if (p.tokens <= 8) return launch_up<Row, 1>(stream, p);
  if (p.tokens <= 16) return launch_up<Row, 2>(stream, p);
  return launch_up<Row, 4>(stream, p);
}

template <class Row>
void experts_down_of(Stream stream, const ExpertsDown& p) {
  if (p.tokens <= 8) return launch_down<Row, 1>(stream, p);
  if (p.tokens <= 16) return launch_down<Row, 2>(stream, p);
  return launch_down<Row, 4>(stream, p);
}

}  // namespace

void experts_up_streamed(Stream stream, const ExpertsUp& p) {
  if (p.tokens == 0) return;
  switch (p.gate.format) {
    case WeightFormat::bf16:
      return experts_up_of<Bf16Row>(stream, p);
    case WeightFormat::e4m3_f32:
      return experts_up_of<Fp8BlockRow>(stream, p);
    case WeightFormat::e4m3_e8m0:
      return experts_up_of<MxFp8Row>(stream, p);
  }
}

void experts_down_streamed(Stream stream, const ExpertsDown& p) {
  if (p.tokens == 0) return;
  switch (p.down.format) {
    case WeightFormat::bf16:
      return experts_down_of<Bf16Row>(stream, p);
    case WeightFormat::e4m3_f32:
      return experts_down_of<Fp8BlockRow>(stream, p);
    case WeightFormat::e4m3_e8m0:
      return experts_down_of<MxFp8Row>(stream, p);
  }
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
