#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

namespace simt::checking {

/// Memory from simt::memory::allocate.
struct Allocation {
  std::string name;
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  std::vector<std::uint8_t> written;  ///< by byte, 0 or 1
};

/// All of it, for every thread of the process.
class Allocations {
 public:
  static constexpr std::size_t guard_bytes = 256;  ///< on both sides; they belong to the allocation in find()

  static Allocations& instance();

  void add(std::uintptr_t begin, std::size_t bytes, std::string name);
  void remove(std::uintptr_t begin);
  /// The allocation that `address` is in, or in whose guard bytes it is; null for other memory. Valid until it is
  /// removed.
  Allocation* find(std::uintptr_t address);

 private:
  std::shared_mutex mutex_;
  std::atomic<std::uint64_t> generation_{1};  ///< changes when an allocation goes
  std::map<std::uintptr_t, Allocation> by_begin_;
};

}  // namespace simt::checking
