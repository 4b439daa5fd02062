// RMSNorm and softmax of rows: shuffles, static and dynamic shared memory, votes, atomics.
#include "cuda/simt/examples/row_kernels.h"
#include "cuda/simt/simt.h"

namespace simt::examples::inline SIMT_BACKEND {
namespace {

constexpr unsigned whole_warp = 0xFFFFFFFFu;

template <int Threads>
__device__ float block_sum(float v) {
  SIMT_SHARED(float, partial, Threads / 32);
  for (int offset = 16; offset > 0; offset >>= 1) v += __shfl_xor_sync(whole_warp, v, offset);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0;
  for (int i = 0; i < Threads / 32; ++i) v += partial[i];
  return v;
}

template <int Threads>
__global__ void __launch_bounds__(Threads)
    rms_norm_kernel(const float* x, const float* w, __nv_bfloat16* y, int n, float eps) {
  x += static_cast<std::size_t>(blockIdx.x) * n;
  y += static_cast<std::size_t>(blockIdx.x) * n;
  float squares = 0;
  for (int i = static_cast<int>(threadIdx.x); i < n; i += Threads) squares += x[i] * x[i];
  const float scale = rsqrtf(block_sum<Threads>(squares) / static_cast<float>(n) + eps);
  for (int i = static_cast<int>(threadIdx.x); i < n; i += Threads) y[i] = __float2bfloat16(x[i] * scale * w[i]);
}

__global__ void softmax_kernel(const float* x, float* y, int rows, int n, int* full) {
  SIMT_DYNAMIC_SHARED(float, buffers);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int row = static_cast<int>(blockIdx.x * (blockDim.x / 32)) + warp;
  if (row >= rows) return;
  float* const buffer = buffers + static_cast<std::size_t>(warp) * n;
  x += static_cast<std::size_t>(row) * n;
  y += static_cast<std::size_t>(row) * n;

  float largest = -INFINITY;
  for (int i = lane; i < n; i += 32) {
    buffer[i] = x[i];
    largest = fmaxf(largest, buffer[i]);
  }
  for (int offset = 16; offset > 0; offset >>= 1)
    largest = fmaxf(largest, __shfl_xor_sync(whole_warp, largest, offset));
  float sum = 0;
  for (int i = lane; i < n; i += 32) {
    buffer[i] = __expf(buffer[i] - largest);
    sum += buffer[i];
  }
  for (int offset = 16; offset > 0; offset >>= 1) sum += __shfl_down_sync(whole_warp, sum, offset);
  sum = __shfl_sync(whole_warp, sum, 0);
  for (int i = lane; i < n; i += 32) y[i] = buffer[i] / sum;
  if (__all_sync(whole_warp, sum > 0) != 0 && lane == 0) atomicAdd(full, 1);
}

}  // namespace

void rms_norm(Stream stream, int threads, const float* x, const float* w, __nv_bfloat16* y, int rows, int n,
              float eps) {
  const auto kernel = threads == 64 ? rms_norm_kernel<64> : rms_norm_kernel<256>;
  launch_on(stream, kernel, dim3(rows), dim3(threads == 64 ? 64 : 256), 0, x, w, y, n, eps);
}

void softmax(Stream stream, int warps, const float* x, float* y, int rows, int n, int* full) {
  const auto shared_bytes = static_cast<std::size_t>(warps) * n * sizeof(float);
  launch_on(stream, softmax_kernel, dim3((rows + warps - 1) / warps), dim3(warps * 32), shared_bytes, x, y, rows, n,
            full);
}

}  // namespace simt::examples::inline SIMT_BACKEND
