#include "cuda/simt/machine/shared_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace simt::machine {
namespace {

constexpr std::size_t base_alignment = 128;

void forbid([[maybe_unused]] const void* address, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(address, bytes);
#endif
}

void permit([[maybe_unused]] const void* address, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(address, bytes);
#endif
}

}  // namespace

SharedMemory::SharedMemory() : base_(static_cast<std::byte*>(std::aligned_alloc(base_alignment, capacity))) {
  if (base_ == nullptr) throw std::bad_alloc();
  forbid(base_, capacity);
}

SharedMemory::~SharedMemory() {
  permit(base_, capacity);
  std::free(base_);
}

void SharedMemory::lay_out(std::size_t dynamic_bytes) {
  forbid(base_, capacity);
  arrays_.clear();
  used_ = leading_bytes;
  declared_ = 0;
  if (dynamic_bytes > 0) append("dynamic shared memory", dynamic_bytes, base_alignment, nullptr);
}

void SharedMemory::poison() {
  for (const Array& array : arrays_) std::memset(array.begin, 0xFF, array.bytes);
}

void* SharedMemory::find(const memory::Declaration& declaration) {
  const auto known = std::find_if(arrays_.begin(), arrays_.end(),
                                  [&](const Array& array) { return array.declaration == &declaration; });
  if (known != arrays_.end()) return known->begin;
  if (declared_ + declaration.bytes > limit) return nullptr;
  std::byte* begin = append(declaration.name, declaration.bytes, declaration.alignment, &declaration);
  std::memset(begin, 0xFF, declaration.bytes);
  return begin;
}

std::byte* SharedMemory::append(const std::string& name, std::size_t bytes, std::size_t alignment,
                                const memory::Declaration* declaration) {
  alignment = std::max<std::size_t>(alignment, 16);
  const std::size_t offset = (used_ + alignment - 1) / alignment * alignment;
  std::byte* begin = base_ + offset;
  permit(begin, bytes);
  used_ = offset + bytes + guard_bytes;
  declared_ += bytes;
  arrays_.push_back({name, begin, bytes, declaration});
  return begin;
}

}  // namespace simt::machine
