#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "cuda/kernels/stream.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// Throws Error{environment} unless `status` is success: "cudaMalloc of 12 bytes on NVIDIA H200: out of memory".
void check(cudaError_t status, const std::string& what);

/// "NVIDIA H200, sm_90", or "no device".
std::string device_name();

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
