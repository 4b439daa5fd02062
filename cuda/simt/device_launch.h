#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace simt {

/// Raises the kernel's limit of dynamic shared memory where `bytes` exceeds the 48 KiB that need no asking.
/// Throws mtpcheck::Error where the device has not so much.
void allow_shared_bytes(const void* kernel, std::size_t bytes);

/// Throws mtpcheck::Error with kernel, shape, device and reason where the launch just made was refused.
void check_launch(const void* kernel, dim3 grid, dim3 block, std::size_t shared_bytes);

}  // namespace simt
