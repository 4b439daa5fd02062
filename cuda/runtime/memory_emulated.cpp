#include <cstring>
#include <string>

#include "cuda/runtime/memory.h"
#include "cuda/simt/global_memory.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

std::string require_device() { return "the CPU, by emulation"; }

int multiprocessors() { return 4; }
int device_index() { return -1; }

void* allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  return simt::memory::allocate(bytes, "buffer of " + std::to_string(bytes) + " bytes");
}

void release(void* memory) noexcept { simt::memory::release(memory); }

void upload_bytes(Stream /*stream*/, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  std::memcpy(to, from, bytes);
  simt::memory::mark_written(to, bytes);
}
void download_bytes(Stream /*stream*/, void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}
void copy_on_device(Stream /*stream*/, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  std::memmove(to, from, bytes);
  simt::memory::mark_written(to, bytes);
}
void fill_bytes(Stream /*stream*/, void* memory, int byte, std::size_t bytes) {
  if (bytes == 0) return;
  std::memset(memory, byte, bytes);
  simt::memory::mark_written(memory, bytes);
}
void synchronize(Stream /*stream*/) {}
void wait_for(Stream /*stream*/, Stream /*other*/) {}

OwnedStream::OwnedStream() = default;
OwnedStream::~OwnedStream() = default;

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
