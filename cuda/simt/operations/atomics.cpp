#include "cuda/simt/atomics.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>

#include "cuda/simt/machine/block.h"

namespace {

/// Applies `change` to what `address` holds and returns the value before. The default argument is evaluated in the
/// function that a kernel calls: it is where the kernel goes on.
template <class T, class Change>
T update(T* address, Change change, const void* caller = __builtin_return_address(0)) {
  auto& block = simt::machine::current_block("an atomic");
  if (reinterpret_cast<std::uintptr_t>(address) % sizeof(T) != 0)
    block.fail(block.thread(), fmt::format("an atomic of {} bytes on the address {}, which is no multiple of that",
                                           sizeof(T), static_cast<const void*>(address)));
  block.perhaps_yield();
  block.observe(address, sizeof(T), simt::checking::Kind::atomic, reinterpret_cast<std::uintptr_t>(caller));
  std::atomic_ref<T> cell(*address);
  T old = cell.load(std::memory_order_relaxed);
  while (!cell.compare_exchange_weak(old, change(old), std::memory_order_relaxed)) {
  }
  return old;
}

/// As update(), for types that are compared by their bits.
template <class Bits, class T, class Change>
T update_bits(T* address, Change change, const void* caller = __builtin_return_address(0)) {
  const Bits old = update(
      reinterpret_cast<Bits*>(address), [&](Bits bits) { return std::bit_cast<Bits>(change(std::bit_cast<T>(bits))); },
      caller);
  return std::bit_cast<T>(old);
}

/// A loop that tries until it succeeds waits for another thread: let that one run.
template <class T>
T exchange(T* address, T value, const void* caller = __builtin_return_address(0)) {
  const T old = update(
      address, [&](T) { return value; }, caller);
  if (old == value) simt::machine::yield();
  return old;
}

template <class T>
T compare_and_swap(T* address, T expected, T value, const void* caller = __builtin_return_address(0)) {
  const T old = update(
      address, [&](T before) { return before == expected ? value : before; }, caller);
  if (old != expected) simt::machine::yield();
  return old;
}

template <class T>
T add(T* address, T value, const void* caller = __builtin_return_address(0)) {
  return update(
      address, [&](T old) { return static_cast<T>(old + value); }, caller);
}

}  // namespace

int atomicAdd(int* address, int value) {
  return static_cast<int>(add(reinterpret_cast<unsigned*>(address), static_cast<unsigned>(value)));
}
unsigned atomicAdd(unsigned* address, unsigned value) { return add(address, value); }
unsigned long long atomicAdd(unsigned long long* address, unsigned long long value) { return add(address, value); }
float atomicAdd(float* address, float value) {
  return update_bits<std::uint32_t>(address, [&](float old) { return old + value; });
}
double atomicAdd(double* address, double value) {
  return update_bits<std::uint64_t>(address, [&](double old) { return old + value; });
}
__nv_bfloat16 atomicAdd(__nv_bfloat16* address, __nv_bfloat16 value) {
  const auto bits = update(reinterpret_cast<std::uint16_t*>(address), [&](std::uint16_t old) {
    const float sum = __bfloat162float(__ushort_as_bfloat16(old)) + __bfloat162float(value);
    return __bfloat16_as_ushort(__float2bfloat16(sum));
  });
  return __ushort_as_bfloat16(bits);
}
int atomicSub(int* address, int value) {
  return static_cast<int>(add(reinterpret_cast<unsigned*>(address), 0u - static_cast<unsigned>(value)));
}
unsigned atomicSub(unsigned* address, unsigned value) { return add(address, 0u - value); }

// NOLINTBEGIN(bugprone-macro-parentheses): a type cannot be in parentheses
#define SIMT_ATOMIC(name, T, result)                                       \
  T name(T* address, T value) {                                            \
    return update(address, [&](T old) { return static_cast<T>(result); }); \
  }
#define SIMT_ATOMIC_32_AND_64(name, result) \
  SIMT_ATOMIC(name, int, result)            \
  SIMT_ATOMIC(name, unsigned, result)       \
  SIMT_ATOMIC(name, unsigned long long, result)

SIMT_ATOMIC_32_AND_64(atomicMin, std::min(old, value))
SIMT_ATOMIC(atomicMin, long long, std::min(old, value))
SIMT_ATOMIC_32_AND_64(atomicMax, std::max(old, value))
SIMT_ATOMIC(atomicMax, long long, std::max(old, value))
SIMT_ATOMIC_32_AND_64(atomicAnd, old& value)
SIMT_ATOMIC_32_AND_64(atomicOr, old | value)
SIMT_ATOMIC_32_AND_64(atomicXor, old ^ value)

#undef SIMT_ATOMIC_32_AND_64
#undef SIMT_ATOMIC
// NOLINTEND(bugprone-macro-parentheses)

int atomicExch(int* address, int value) { return exchange(address, value); }
unsigned atomicExch(unsigned* address, unsigned value) { return exchange(address, value); }
unsigned long long atomicExch(unsigned long long* address, unsigned long long value) {
  return exchange(address, value);
}
float atomicExch(float* address, float value) {
  return update_bits<std::uint32_t>(address, [&](float) { return value; });
}

int atomicCAS(int* address, int expected, int value) { return compare_and_swap(address, expected, value); }
unsigned atomicCAS(unsigned* address, unsigned expected, unsigned value) {
  return compare_and_swap(address, expected, value);
}
unsigned long long atomicCAS(unsigned long long* address, unsigned long long expected, unsigned long long value) {
  return compare_and_swap(address, expected, value);
}

unsigned atomicInc(unsigned* address, unsigned limit) {
  return update(address, [&](unsigned old) { return old >= limit ? 0 : old + 1; });
}
unsigned atomicDec(unsigned* address, unsigned limit) {
  return update(address, [&](unsigned old) { return old == 0 || old > limit ? limit : old - 1; });
}
