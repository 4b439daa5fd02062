#pragma once

#include "cuda/simt/qualifiers.h"

/// Barriers of a block and of a warp, and fences.
///
/// A barrier completes when every thread that has not exited stands at it. Two different barriers (another file, line
/// or column) do not match: hardware would let them pass, and one of the two is then a mistake. A thread that has
/// exited is an error too unless Options::allow_early_exit.
#if SIMT_ON_CPU

namespace simt::machine {

struct Votes {
  unsigned yes;  ///< threads whose predicate holds
  unsigned all;  ///< threads at the barrier
};
Votes block_barrier(const char* operation, bool predicate, const Location& where);
void warp_barrier(const char* operation, unsigned mask, const Location& where);
void fence();
/// Gives other threads of the block a turn: a loop that waits for them would otherwise never end.
void yield();

}  // namespace simt::machine

// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's names
inline void __syncthreads(const simt::Location& where = simt::Location::current()) {
  simt::machine::block_barrier("__syncthreads", false, where);
}

inline int __syncthreads_count(int predicate, const simt::Location& where = simt::Location::current()) {
  return static_cast<int>(simt::machine::block_barrier("__syncthreads_count", predicate != 0, where).yes);
}

inline int __syncthreads_and(int predicate, const simt::Location& where = simt::Location::current()) {
  const auto votes = simt::machine::block_barrier("__syncthreads_and", predicate != 0, where);
  return votes.yes == votes.all ? 1 : 0;
}

inline int __syncthreads_or(int predicate, const simt::Location& where = simt::Location::current()) {
  return simt::machine::block_barrier("__syncthreads_or", predicate != 0, where).yes != 0 ? 1 : 0;
}

inline void __syncwarp(unsigned mask = 0xFFFFFFFFu, const simt::Location& where = simt::Location::current()) {
  simt::machine::warp_barrier("__syncwarp", mask, where);
}

inline void __threadfence() { simt::machine::fence(); }
inline void __threadfence_block() {}
inline void __threadfence_system() { simt::machine::fence(); }
inline void __nanosleep(unsigned /*nanoseconds*/) { simt::machine::yield(); }
// NOLINTEND(bugprone-reserved-identifier)

#endif
