#pragma once

#include <cstdint>
#include <string_view>

/// Classic bugs, planted for a test that must catch each of them.
///
///   if (!SIMT_MUTANT(sum_without_barrier)) __syncthreads();
///
/// is `__syncthreads();` in every program but the one that is compiled with SIMT_MUTANTS
/// (mtpcheck_add_checked_kernels): there it is true while that bug is planted. SIMT_MUTANT is a constant false
/// elsewhere and costs nothing.
#if defined(SIMT_MUTANTS) && !defined(__CUDACC__)

namespace simt {

/// FNV-1a of a mutant's name.
constexpr std::uint64_t mutant_id(std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

/// The bug that is planted; 0: none.
inline std::uint64_t planted_mutant = 0;

}  // namespace simt

#define SIMT_MUTANT(name) (::simt::planted_mutant == ::simt::mutant_id(#name))

#else

#define SIMT_MUTANT(name) false

#endif
