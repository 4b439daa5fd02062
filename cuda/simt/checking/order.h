#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace simt::checking {

/// Which accesses of a block's threads are ordered by synchronisation.
///
/// Block barriers split time into intervals, numbered through all blocks and launches of a CPU thread. Within an
/// interval
/// __syncwarp orders lanes of one warp, which is followed with vector clocks. Shuffles and votes order nothing: CUDA
/// promises no memory ordering for them.
class Order {
 public:
  void begin_block(unsigned threads);
  void block_barrier();
  void warp_barrier(unsigned warp, unsigned lanes);

  std::uint32_t interval() const { return interval_; }
  std::uint32_t first_interval() const { return first_interval_; }  ///< of the block
  std::uint32_t clock(unsigned thread) const { return clocks_[thread]; }
  /// Whether what `earlier` did at `clock` of this interval comes before what `later` does now.
  bool ordered(unsigned earlier, std::uint32_t clock, unsigned later) const;

 private:
  static constexpr unsigned warp_size = 32;
  using Clocks = std::array<std::uint32_t, warp_size>;
  using Known = std::array<Clocks, warp_size>;  ///< [a][b]: up to which clock of lane b lane a is synchronised

  void forget_clocks();

  std::uint32_t interval_ = 0;
  std::uint32_t first_interval_ = 0;
  std::vector<std::uint32_t> clocks_;
  std::vector<Known> known_;
  std::vector<bool> used_;  ///< warps that have clocks to forget
};

}  // namespace simt::checking
