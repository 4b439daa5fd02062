#pragma once

/// The words that CUDA adds to C++: qualifiers, the built-in index variables, and shared memory.
///
/// SIMT_ON_CPU       1 where the C++ compiler reads the kernel, 0 under nvcc
/// SIMT_BACKEND      a namespace name for what is compiled several times into one program: `device`, `emulated`, or
///                   `checked` (emulated with every memory access observed; see README.md)
/// SIMT_SHARED(T, name, extents...)   an array in static shared memory, `T name[extent]...`, or one T without extents.
///                   Prefer it to a bare `__shared__`: on the CPU the array is poisoned for every block, has guard
///                   bytes on both sides, and reports call it by its name.
/// SIMT_DYNAMIC_SHARED(T, name)       the dynamic shared memory of the launch, as `T* name`
#if defined(__CUDACC__)

#include <cuda_runtime.h>

#include <cstddef>

#define SIMT_ON_CPU 0
#ifndef SIMT_BACKEND
#define SIMT_BACKEND device
#endif

namespace simt::memory {
template <class T, std::size_t... Extents>
struct ArrayOf {
  using type = T;
};
template <class T, std::size_t First, std::size_t... Rest>
struct ArrayOf<T, First, Rest...> {
  using type = typename ArrayOf<T, Rest...>::type[First];
};
}  // namespace simt::memory

#define SIMT_SHARED(T, name, ...) __shared__ typename ::simt::memory::ArrayOf<T __VA_OPT__(, ) __VA_ARGS__>::type name
// One untyped symbol: two kernels of one file may see the same memory as different types.
extern __shared__ __align__(128) unsigned char simt_dynamic_shared[];
#define SIMT_DYNAMIC_SHARED(T, name) T* const name = reinterpret_cast<T*>(simt_dynamic_shared)

#else

#include <vector_functions.h>
#include <vector_types.h>

#include <cstddef>

#include "cuda/simt/location.h"

#define SIMT_ON_CPU 1
#ifndef SIMT_BACKEND
#define SIMT_BACKEND emulated
#endif
// Defined by mtpcheck_add_checked_kernels: the compiler calls the layer before every memory access.
#if defined(SIMT_CHECKED)
#define SIMT_OBSERVED true
#else
#define SIMT_OBSERVED false
#endif

// CUDA's headers give these words attributes of their own; here they say nothing.
// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's words
#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __constant__
#undef __forceinline__
#undef __grid_constant__
#undef __launch_bounds__
#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __grid_constant__
#define __launch_bounds__(...)
// AddressSanitizer puts red zones around plain statics but not around thread-locals. Its builds run one worker.
#if defined(__SANITIZE_ADDRESS__)
#define __shared__ static
#else
#define __shared__ static thread_local
#endif
// NOLINTEND(bugprone-reserved-identifier)

inline constinit thread_local uint3 threadIdx{};
inline constinit thread_local uint3 blockIdx{};
inline constinit thread_local dim3 blockDim{1, 1, 1};
inline constinit thread_local dim3 gridDim{1, 1, 1};
inline constexpr int warpSize = 32;

namespace simt::memory {

template <class T, std::size_t... Extents>
struct ArrayOf {
  using type = T;
};
template <class T, std::size_t First, std::size_t... Rest>
struct ArrayOf<T, First, Rest...> {
  using type = typename ArrayOf<T, Rest...>::type[First];
};

/// A declaration of static shared memory; its address is the key under which a block finds its copy.
struct Declaration {
  const char* name;
  std::size_t bytes;
  std::size_t alignment;
  Location where;
};

/// The running block's copy of `declaration`: 0xFF bytes (NaN in every float format) until a thread writes.
void* static_shared(const Declaration& declaration);
/// The running block's dynamic shared memory, aligned to 128 bytes.
void* dynamic_shared();

template <class Array>
Array& shared(const Declaration& declaration) {
  return *static_cast<Array*>(static_shared(declaration));
}

}  // namespace simt::memory

// NOLINTBEGIN(bugprone-macro-parentheses): types and declared names cannot be in parentheses
#define SIMT_SHARED(T, name, ...)                                                                   \
  using simt_type_of_##name = ::simt::memory::ArrayOf<T __VA_OPT__(, ) __VA_ARGS__>::type;          \
  static const ::simt::memory::Declaration simt_declaration_of_##name{                              \
      #name, sizeof(simt_type_of_##name), alignof(simt_type_of_##name), simt::Location::current()}; \
  auto& name = ::simt::memory::shared<simt_type_of_##name>(simt_declaration_of_##name)
#define SIMT_DYNAMIC_SHARED(T, name) T* const name = static_cast<T*>(::simt::memory::dynamic_shared())
// NOLINTEND(bugprone-macro-parentheses)

#endif
