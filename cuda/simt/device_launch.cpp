#include "cuda/simt/device_launch.h"

#include <fmt/format.h>

#include <string>

#include "reference/tensor/error.h"

namespace simt {
namespace {

constexpr std::size_t shared_bytes_without_asking = 48 * 1024;

std::string name_of(const void* kernel) {
  const char* name = nullptr;
  return cudaFuncGetName(&name, kernel) == cudaSuccess && name != nullptr ? name : "(unknown)";
}

std::string device_name() {
  int device = 0;
  cudaDeviceProp properties{};
  if (cudaGetDevice(&device) != cudaSuccess || cudaGetDeviceProperties(&properties, device) != cudaSuccess)
    return "no device";
  return fmt::format("device {} ({}, sm_{}{})", device, properties.name, properties.major, properties.minor);
}

}  // namespace

void allow_shared_bytes(const void* kernel, std::size_t bytes) {
  if (bytes <= shared_bytes_without_asking) return;
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (status != cudaSuccess)
    throw mtpcheck::environment_error(fmt::format("kernel {}: {} bytes of dynamic shared memory on {}: {}",
                                                  name_of(kernel), bytes, device_name(), cudaGetErrorString(status)));
}

void check_launch(const void* kernel, dim3 grid, dim3 block, std::size_t shared_bytes) {
  const cudaError_t status = cudaGetLastError();
  if (status == cudaSuccess) return;
  throw mtpcheck::environment_error(fmt::format(
      "kernel {}: launch of grid ({},{},{}), block ({},{},{}), {} bytes of shared memory on {}: {}", name_of(kernel),
      grid.x, grid.y, grid.z, block.x, block.y, block.z, shared_bytes, device_name(), cudaGetErrorString(status)));
}

}  // namespace simt
