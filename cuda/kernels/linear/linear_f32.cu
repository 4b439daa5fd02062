// Linear layer with float32 weights: one block a weight row, its threads share the columns, eight tokens at a time.
//   in   x [T, C] bf16, W [R, C] f32      out  y [T, R] f32
//   bytes 4·R·C; Hy4-preview's router (256 × 6144) is 6.3 MB: 1.3 µs at 4.8 TB/s.
#include "cuda/kernels/linear/linear_f32.h"
#include "cuda/kernels/numeric/bfloat.h"
#include "cuda/kernels/numeric/reduce.h"
#include "cuda/kernels/numeric/rows.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

namespace {

constexpr int kMaxThreads = 256;
constexpr int kTokens = 8;

__global__ void __launch_bounds__(kMaxThreads) linear_f32_kernel(LinearF32 p) {
  SIMT_SHARED(float, scratch, 32);
  const std::int64_t stride = row_stride(p.cols);
  const int row = static_cast<int>(blockIdx.x);
  const float* const weight = p.weight + row * stride;
  for (int first = 0; first < p.tokens; first += kTokens) {
    float sum[kTokens] = {};
    for (int k = 8 * static_cast<int>(threadIdx.x); k < p.cols; k += 8 * static_cast<int>(blockDim.x)) {
      float w[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) w[i] = k + i < p.cols ? weight[k + i] : 0.0f;
#pragma unroll
      for (int t = 0; t < kTokens; ++t) {
        if (first + t >= p.tokens) break;
        float x[8];
        load8(p.x + (first + t) * stride + k, p.cols - k, x);
#pragma unroll
        for (int i = 0; i < 8; ++i) sum[t] += w[i] * x[i];
      }
    }
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      if (first + t >= p.tokens) break;
      const float total = block_sum(sum[t], scratch);
      if (threadIdx.x == 0) p.y[static_cast<std::int64_t>(first + t) * row_stride(p.rows) + row] = total;
    }
  }
}

}  // namespace

void linear_f32(Stream stream, const LinearF32& p) {
  if (p.tokens == 0) return;
  const int wanted = round_up(ceil_div(p.cols, 8), 32);
  simt::launch_on(stream, linear_f32_kernel, dim3(p.rows), dim3(wanted < kMaxThreads ? wanted : kMaxThreads), 0, p);
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
