#include <fmt/format.h>

#include "cuda/runtime/memory.h"
#include "cuda/runtime/status.h"
#include "reference/tensor/error.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

std::string device_name() {
  int device = 0;
  cudaDeviceProp properties{};
  if (cudaGetDevice(&device) != cudaSuccess || cudaGetDeviceProperties(&properties, device) != cudaSuccess) {
    return "no device";
  }
  return fmt::format("{}, sm_{}{}", properties.name, properties.major, properties.minor);
}

void check(cudaError_t status, const std::string& what) {
  if (status == cudaSuccess) return;
  throw environment_error(fmt::format("{} on {}: {}", what, device_name(), cudaGetErrorString(status)));
}

std::string require_device() {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    throw environment_error(
        "No CUDA driver is installed on this machine. Run the candidate cuda-emulated, or use a machine with a GPU.");
  }
  // Without a device the call fails and leaves the count as it was.
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    throw environment_error(
        fmt::format("No CUDA device is usable on this machine ({}). Run the candidate cuda-emulated instead.",
                    status == cudaSuccess ? "the driver lists none" : cudaGetErrorString(status)));
  }
  return device_name();
}

int device_index() {
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  return device;
}

int multiprocessors() {
  int count = 0;
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device_index()), "cudaDeviceGetAttribute");
  return count;
}

void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  if (bytes > 0) check(cudaMalloc(&memory, bytes), fmt::format("cudaMalloc of {} bytes", bytes));
  return memory;
}

void release(void* memory) noexcept { cudaFree(memory); }

void upload_bytes(Stream stream, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  // From pageable memory the call returns once `from` has been read.
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), fmt::format("upload of {} bytes", bytes));
}

void download_bytes(Stream stream, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream), fmt::format("download of {} bytes", bytes));
  synchronize(stream);
}

void copy_on_device(Stream stream, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), fmt::format("copy of {} bytes", bytes));
}

void fill_bytes(Stream stream, void* memory, int byte, std::size_t bytes) {
  if (bytes == 0) return;
  check(cudaMemsetAsync(memory, byte, bytes, stream), fmt::format("fill of {} bytes", bytes));
}

void synchronize(Stream stream) { check(cudaStreamSynchronize(stream), "cudaStreamSynchronize"); }

void wait_for(Stream stream, Stream other) {
  if (stream == other) return;
  cudaEvent_t passed = nullptr;
  check(cudaEventCreateWithFlags(&passed, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  const cudaError_t recorded = cudaEventRecord(passed, other);
  const cudaError_t waiting = recorded == cudaSuccess ? cudaStreamWaitEvent(stream, passed, 0) : recorded;
  cudaEventDestroy(passed);  // it lives on until it has passed
  check(waiting, "cudaStreamWaitEvent");
}

OwnedStream::OwnedStream() {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}
OwnedStream::~OwnedStream() { cudaStreamDestroy(stream_); }

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
