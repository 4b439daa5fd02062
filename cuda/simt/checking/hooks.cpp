// What -fsanitize=thread makes the compiler call before every memory access. Programs with checked kernels are compiled
// with it and linked without: these definitions take the place of the ThreadSanitizer library's.
#include <cstddef>
#include <cstdint>

#include "cuda/simt/machine/block.h"

namespace {

using simt::checking::Kind;

void observe(const void* address, std::size_t bytes, Kind kind, void* return_address) {
  if (simt::machine::Block* block = simt::machine::Block::current())
    block->observe(address, bytes, kind, reinterpret_cast<std::uintptr_t>(return_address));
}

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier, bugprone-macro-parentheses): the compiler's names
#define SIMT_HOOK(name, bytes, kind) \
  void name(void* address) { observe(address, bytes, kind, __builtin_return_address(0)); }
#define SIMT_HOOKS(suffix, bytes)                              \
  SIMT_HOOK(__tsan_read##suffix, bytes, Kind::read)            \
  SIMT_HOOK(__tsan_write##suffix, bytes, Kind::write)          \
  SIMT_HOOK(__tsan_volatile_read##suffix, bytes, Kind::read)   \
  SIMT_HOOK(__tsan_volatile_write##suffix, bytes, Kind::write) \
  SIMT_HOOK(__tsan_unaligned_read##suffix, bytes, Kind::read)  \
  SIMT_HOOK(__tsan_unaligned_write##suffix, bytes, Kind::write)

extern "C" {

SIMT_HOOKS(1, 1)
SIMT_HOOKS(2, 2)
SIMT_HOOKS(4, 4)
SIMT_HOOKS(8, 8)
SIMT_HOOKS(16, 16)

void __tsan_read_range(void* address, std::size_t bytes) {
  observe(address, bytes, Kind::read, __builtin_return_address(0));
}
void __tsan_write_range(void* address, std::size_t bytes) {
  observe(address, bytes, Kind::write, __builtin_return_address(0));
}

// std::atomic in host code of the same file (kernels use atomicAdd and the like).
#define SIMT_ATOMIC_HOOKS(bits)                                                                             \
  std::uint##bits##_t __tsan_atomic##bits##_load(const volatile std::uint##bits##_t* address, int) {        \
    return __atomic_load_n(address, __ATOMIC_SEQ_CST);                                                      \
  }                                                                                                         \
  void __tsan_atomic##bits##_store(volatile std::uint##bits##_t* address, std::uint##bits##_t value, int) { \
    __atomic_store_n(address, value, __ATOMIC_SEQ_CST);                                                     \
  }                                                                                                         \
  std::uint##bits##_t __tsan_atomic##bits##_fetch_add(volatile std::uint##bits##_t* address,                \
                                                      std::uint##bits##_t value, int) {                     \
    return __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST);                                            \
  }                                                                                                         \
  std::uint##bits##_t __tsan_atomic##bits##_fetch_sub(volatile std::uint##bits##_t* address,                \
                                                      std::uint##bits##_t value, int) {                     \
    return __atomic_fetch_sub(address, value, __ATOMIC_SEQ_CST);                                            \
  }

SIMT_ATOMIC_HOOKS(8)
SIMT_ATOMIC_HOOKS(32)
SIMT_ATOMIC_HOOKS(64)
#undef SIMT_ATOMIC_HOOKS

void __tsan_init() {}
void __tsan_func_entry(void* /*caller*/) {}
void __tsan_func_exit() {}
void __tsan_vptr_read(void** /*pointer*/) {}
void __tsan_vptr_update(void** /*pointer*/, void* /*value*/) {}

}  // extern "C"

#undef SIMT_HOOKS
#undef SIMT_HOOK
// NOLINTEND(bugprone-reserved-identifier, bugprone-macro-parentheses)
