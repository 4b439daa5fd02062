#pragma once

#include <cuda_bf16.h>

#include "cuda/simt/launch.h"

/// Two kernels as they are usually written, which the tests and the benchmark of the execution layer run.
namespace simt::examples::inline SIMT_BACKEND {

/// y = x / rms(x) · w, one block of `threads` (64 or 256) a row.   x [rows, n], w [n], y [rows, n]
void rms_norm(Stream stream, int threads, const float* x, const float* w, __nv_bfloat16* y, int rows, int n, float eps);

/// y = softmax(x), one warp a row, `warps` of them in a block, the rows in dynamic shared memory.   x, y [rows, n]
/// Adds to *full the number of rows that a warp has worked on.
void softmax(Stream stream, int warps, const float* x, float* y, int rows, int n, int* full);

}  // namespace simt::examples::inline SIMT_BACKEND
