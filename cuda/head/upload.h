#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <span>

#include "cuda/kernels/linear/weight_view.h"
#include "cuda/runtime/memory.h"
#include "reference/model/weights.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// Weight matrices in device memory. `view` points into the buffers.
struct DeviceMatrix {
  Buffer<std::uint8_t> data;
  Buffer<std::uint8_t> scales;
  WeightView view;
};

/// Uploads equally shaped matrices, one behind the other, in a format that the kernels read.
///
/// BF16, and E4M3 whose scales have one cell a power of two ≥ 32 of columns (or one a row), keep their bytes;
/// everything else (float32, float16, E5M2, other grids, matrices of one stack with different grids) is decoded and
/// rounded to bf16, once. One matrix at a time is held in host memory.
DeviceMatrix upload_matrices(Stream stream, std::span<const Matrix> matrices);
DeviceMatrix upload_matrix(Stream stream, const Matrix& matrix);
/// The same, always decoded to bf16.
DeviceMatrix upload_decoded(Stream stream, std::span<const Matrix> matrices);

/// For each head h of `heads`: (rows [h·size, h·size + count) of the matrix)ᵀ, in bf16. What takes a head's query into
/// the latent space.
DeviceMatrix upload_transposed_pieces(Stream stream, const Matrix& matrix, int heads, int size, int count);

/// In float32, rows at row_stride(cols).
Buffer<float> upload_f32(Stream stream, const Matrix& matrix);
/// In bf16, rows at row_stride(cols): the embedding.
Buffer<__nv_bfloat16> upload_bf16_rows(Stream stream, const Matrix& matrix);
Buffer<float> upload_vector(Stream stream, const Vector& values);

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
