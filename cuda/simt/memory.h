#pragma once

#include "cuda/simt/qualifiers.h"

/// Loads and stores with a cache hint, and copies from global to shared memory in the background (cp.async).
///
/// copy_async<Bytes>(shared, global)              starts a copy of 4, 8 or 16 bytes; both addresses are multiples of
/// Bytes copy_async_or_zero<Bytes>(shared, global, valid)   the same where `valid`, zeros elsewhere (`global` is not
/// read then) commit_copies()                                closes a group of copies, maybe an empty one
/// wait_for_copies<Pending>()                     waits for all of the thread's groups but the `Pending` latest
///
/// A thread sees its own copies after wait_for_copies, and those of others after a barrier on top of that. On the CPU a
/// copy happens as late as that permits, in wait_for_copies: who reads too early reads poison.
#if SIMT_ON_CPU

#include <cstdint>

namespace simt {
namespace machine {

void start_copy(void* shared, const void* global, unsigned bytes, bool valid);
void commit_copies();
void wait_for_copies(unsigned pending);

}  // namespace machine

template <int Bytes>
__forceinline__ void copy_async_or_zero(void* shared, const void* global, bool valid) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "cp.async moves 4, 8 or 16 bytes");
  machine::start_copy(shared, global, Bytes, valid);
}

template <int Bytes>
__forceinline__ void copy_async(void* shared, const void* global) {
  copy_async_or_zero<Bytes>(shared, global, true);
}

__forceinline__ void commit_copies() { machine::commit_copies(); }

template <int Pending>
__forceinline__ void wait_for_copies() {
  machine::wait_for_copies(Pending);
}

}  // namespace simt

// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's names
template <class T>
__forceinline__ T __ldg(const T* address) {
  return *address;
}
template <class T>
__forceinline__ T __ldcg(const T* address) {
  return *address;
}
template <class T>
__forceinline__ T __ldcs(const T* address) {
  return *address;
}
template <class T>
__forceinline__ void __stcg(T* address, T value) {
  *address = value;
}
template <class T>
__forceinline__ void __stcs(T* address, T value) {
  *address = value;
}
// NOLINTEND(bugprone-reserved-identifier)

#else

namespace simt {

template <int Bytes>
__device__ __forceinline__ void copy_async_or_zero(void* shared, const void* global, bool valid) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "cp.async moves 4, 8 or 16 bytes");
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const int read = valid ? Bytes : 0;
  if constexpr (Bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(read) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(global), "n"(Bytes), "r"(read)
                 : "memory");
  }
}

template <int Bytes>
__device__ __forceinline__ void copy_async(void* shared, const void* global) {
  copy_async_or_zero<Bytes>(shared, global, true);
}

__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int Pending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

}  // namespace simt

#endif
