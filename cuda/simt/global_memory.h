#pragma once

#include <cstddef>
#include <string>

/// Memory that plays the device's on the CPU.
///
/// Kernels may work on any memory of the process. What comes from here can be checked better: it holds 0xFF bytes (NaN)
/// until written, and in checked kernels an access outside an allocation, or a read of bytes that nothing has written,
/// is an error that names the allocation.
namespace simt::memory {

/// `bytes` of memory at a multiple of 256; `name` is for reports.
void* allocate(std::size_t bytes, std::string name);
/// Null is ignored.
void release(void* memory);
/// Tells that the host has written these bytes: kernels' own writes are seen, the host's are not.
void mark_written(const void* memory, std::size_t bytes);

}  // namespace simt::memory
