#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cuda/simt/checking/allocations.h"
#include "cuda/simt/checking/order.h"
#include "cuda/simt/checking/shadow.h"
#include "cuda/simt/machine/shared_memory.h"
#include "cuda/simt/machine/thread.h"

namespace simt::checking {

enum class Kind {
  read,
  write,
  atomic,    ///< reads and writes
  overwrite  ///< an asynchronous copy starts: the bytes hold no value until it has finished
};

/// Follows every memory access of a block's threads, in kernels compiled with mtpcheck_add_checked_kernels, and says
/// what is wrong with it: out of bounds, nothing has written it, or a race with an access by another thread.
class AccessChecker {
 public:
  explicit AccessChecker(const machine::SharedMemory& shared) : shared_(shared) {}

  void begin_grid(const dim3& grid, const dim3& block);
  void begin_block(std::uint64_t linear, unsigned threads);
  void block_barrier() { order_.block_barrier(); }
  void warp_barrier(unsigned warp, unsigned lanes) { order_.warp_barrier(warp, lanes); }
  void fence();

  /// Empty, or what is wrong, to follow "kernel K, block B, thread T: ".
  std::string access(const machine::Thread& thread, const void* address, std::size_t bytes, Kind kind,
                     std::uintptr_t return_address);

 private:
  struct BlockTime {
    std::uint32_t first_interval;
    std::uint64_t linear;
    bool fenced;  ///< a thread of it has executed __threadfence
  };

  std::string check_shared(std::uintptr_t address, std::size_t bytes, Kind kind, std::uintptr_t site);
  std::string check_allocation(Allocation& allocation, std::uintptr_t address, std::size_t bytes, Kind kind,
                               std::uintptr_t site) const;
  std::string check_word(Word& word, const Record& mine, Kind kind, std::uintptr_t address, bool shared);
  bool conflicts(const Record& earlier, const Record& mine, bool shared) const;
  const BlockTime& block_of(std::uint32_t interval) const;
  std::string describe_race(const Record& earlier, bool earlier_wrote, const Record& mine, Kind kind,
                            std::uintptr_t address) const;
  std::string name_of(std::uintptr_t address) const;

  const machine::SharedMemory& shared_;
  Order order_;
  Shadow shadow_;
  std::vector<BlockTime> blocks_;  ///< of this launch, in order of time
  dim3 grid_{1, 1, 1};
  dim3 block_{1, 1, 1};
  bool has_used_atomics_ = false;  ///< this block, on global memory
};

}  // namespace simt::checking
