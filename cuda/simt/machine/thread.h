#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/simt/qualifiers.h"

namespace simt::machine {

enum class State : std::uint8_t { ready, at_warp_operation, at_block_barrier, exited };

/// What a waiting thread waits in.
struct Place {
  const char* operation = "";
  Location where;

  /// "__syncthreads at cuda/kernels/softmax.cu:31:3"
  std::string describe() const;
  bool same_as(const Place& other) const;
};

/// A copy that copy_async has started.
struct Copy {
  void* shared;
  const void* global;
  unsigned bytes;
  bool valid;             ///< else zeros are written
  std::uintptr_t caller;  ///< where the kernel goes on after starting it
};

/// One CUDA thread.
struct Thread {
  uint3 index{};  ///< threadIdx
  unsigned linear = 0;
  unsigned lane = 0;
  unsigned warp = 0;
  State state = State::exited;
  bool stuck = false;  ///< suspended for good, before an access that is wrong
  bool begun = false;  ///< has run; until it exits there are frames on its stack
  Place place;
  unsigned mask = 0;                     ///< of the warp operation it waits in
  void* deposit = nullptr;               ///< what it brought to that operation, on its own stack
  bool predicate = false;                ///< what it brought to a block barrier
  std::vector<Copy> copies;              ///< in flight, in order
  std::vector<std::size_t> copy_groups;  ///< ends of the committed groups within `copies`

  /// "(3,0,0)"
  std::string name() const;
  /// "thread (3,0,0) waits in __syncwarp at f.cu:7:3", "thread (3,0,0) has exited"
  std::string describe() const;
};

/// The index whose linear number, x fastest, is `linear`.
uint3 unravel(std::uint64_t linear, const dim3& extent);

/// "(1,2,3)"
std::string coordinates(const uint3& index);

}  // namespace simt::machine
