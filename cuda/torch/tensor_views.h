#pragma once

#include <ATen/core/Tensor.h>
#include <cuda_bf16.h>

#include <cstdint>
#include <string>

#include "cuda/kernels/linear/weight_view.h"
#include "cuda/kernels/stream.h"

/// LibTorch's tensors as the kernels see memory, where they lie: a view has the tensor's own address.
///
/// Tensors are on the current CUDA device, in the emulated half on the CPU. Every function throws Error{input} with the
/// tensor's name and what was found and expected: dtype, shape, device, strides, alignment. The tensor must outlive its
/// view.
namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// A weight matrix [R, C], or a stack [E, R, C] of them.
///
///   bf16               no scales
///   float8_e4m3fn      scales [(E,) ⌈R / block_rows⌉, ⌈C / block_cols⌉], float32 or float8_e8m0fnu; block_cols is at
///                      least C, or a power of two from 32 on
struct TensorMatrix {
  at::Tensor data;
  at::Tensor scales = {};
  std::int64_t block_rows = 1;
  std::int64_t block_cols = 32;
};

/// Columns are neighbours, rows start at multiples of 16 bytes and, where C is no multiple of 32, are followed by zeros
/// up to the next one: any contiguous tensor whose C is a multiple of 32 is taken, and any slice of its rows.
WeightView matrix_view(const TensorMatrix& matrix, const std::string& name);

/// Rows [T, width] of bf16 or float32, row_stride(width) apart: contiguous where `width` is a multiple of 8.
const __nv_bfloat16* bf16_rows_view(const at::Tensor& rows, std::int64_t tokens, std::int64_t width,
                                    const std::string& name);
const float* f32_rows_view(const at::Tensor& rows, std::int64_t tokens, std::int64_t width, const std::string& name);

/// [T] contiguous int32.
const std::int32_t* index_view(const at::Tensor& indices, std::int64_t tokens, const std::string& name);

/// Where the backend's tensors are.
at::Device backend_device();
void check_device(const at::Tensor& tensor, const std::string& name);

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
