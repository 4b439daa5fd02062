#include <cstdlib>
#include <cstring>
#include <new>

#include "cuda/runtime/memory.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

std::string require_device() { return "the CPU, by emulation"; }

int multiprocessors() { return 4; }

void* allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  // Exactly as many bytes as asked for, so that AddressSanitizer sees the first one beyond.
  void* memory = nullptr;
  if (posix_memalign(&memory, 256, bytes) != 0) throw std::bad_alloc();
  std::memset(memory, 0xFF, bytes);
  return memory;
}

void release(void* memory) noexcept { std::free(memory); }

void upload_bytes(Stream /*stream*/, void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}
void download_bytes(Stream /*stream*/, void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}
void copy_on_device(Stream /*stream*/, void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memmove(to, from, bytes);
}
void fill_bytes(Stream /*stream*/, void* memory, int byte, std::size_t bytes) {
  if (bytes > 0) std::memset(memory, byte, bytes);
}
void synchronize(Stream /*stream*/) {}

OwnedStream::OwnedStream() = default;
OwnedStream::~OwnedStream() = default;

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
