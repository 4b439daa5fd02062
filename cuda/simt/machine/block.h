#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cuda/simt/barriers.h"
#include "cuda/simt/checking/access_checker.h"
#include "cuda/simt/launch.h"
#include "cuda/simt/machine/fiber.h"
#include "cuda/simt/machine/shared_memory.h"
#include "cuda/simt/machine/thread.h"

namespace simt::machine {

/// Executes the threads of one block after another on one CPU thread.
///
/// Between two synchronisations a thread runs undisturbed. A warp operation completes with the arrival of its last
/// lane, a block barrier when no thread can run any more and all stand at it. What can complete neither way is a
/// deadlock.
class Block {
 public:
  /// Called on the scheduler's behalf by the last lane to arrive, with what each lane of the mask brought.
  using Completion = void (*)(Block& block, void* const* deposits, unsigned mask);

  static constexpr unsigned warp_size = 32;
  static constexpr unsigned max_threads = 1024;

  explicit Block(std::size_t stack_bytes);

  /// Prepares for a grid; the options are those of the launching thread.
  void begin_grid(const Grid& grid, const Options& options, const std::function<void()>& thread);
  /// Runs the grid's block `linear`. Throws KernelError, after which the Block can be used again.
  void run(std::uint64_t linear);

  /// The block that this CPU thread is executing; null outside kernels.
  static Block* current();
  /// The thread that is running; only inside kernels.
  Thread& thread() { return *running_; }
  SharedMemory& shared() { return shared_; }
  std::size_t stack_bytes() const { return slab_.stack_bytes(); }
  std::uint64_t switches() const { return switches_; }

  // What the running thread may ask for.
  Votes wait_for_block(const Place& place, bool predicate);
  void wait_for_warp(const Place& place, unsigned mask, void* deposit, Completion complete);
  void yield();
  /// yield() now and then, if the order is shuffled.
  void perhaps_yield();
  /// The lanes of the running thread's warp have passed __syncwarp.
  void note_warp_barrier(unsigned lanes);
  void note_fence();
  /// An access by the running thread, in a checked kernel. If it is wrong, the block fails and the thread never goes
  /// on: the compiler takes what it calls before an access for something that does not throw.
  void observe(const void* address, std::size_t bytes, checking::Kind kind, std::uintptr_t return_address);
  /// "kernel K, block (0,0,0), thread (1,0,0)"
  std::string describe_running() const;
  /// Throws KernelError: "kernel K, block (0,0,0), thread (1,0,0): " and the text.
  [[noreturn]] void fail(const Thread& culprit, const std::string& text) const;
  /// The same about a lane of the running thread's warp.
  [[noreturn]] void fail_lane(unsigned lane, const std::string& text) const;

 private:
  struct Warp {
    unsigned existing = 0;  ///< bits of lanes
    unsigned exited = 0;
    unsigned ready = 0;
    unsigned yielded = 0;
    unsigned arrived = 0;  ///< waiting in a warp operation
  };

  void reset(std::uint64_t linear);
  void schedule();
  void choose_order();
  bool run_ready_lanes(unsigned warp);
  void resume(Thread& thread);
  void suspend();
  void thread_body(unsigned linear);
  void release_block_barrier();
  void abandon();
  [[noreturn]] void fail_block(const std::string& text) const;
  [[noreturn]] void fail_deadlock() const;
  std::string block_name() const;
  void check_uniform(const Place& place, unsigned mask, unsigned wanted) const;

  StackSlab slab_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<unsigned> warp_order_;
  std::vector<unsigned> lane_order_;
  SharedMemory shared_;
  checking::AccessChecker checker_{shared_};
  bool checking_ = false;

  Grid grid_{};
  Options options_;
  const std::function<void()>* body_ = nullptr;
  uint3 index_{};
  Thread* running_ = nullptr;
  unsigned live_ = 0;        ///< threads that have not exited
  unsigned at_barrier_ = 0;  ///< threads at a block barrier
  Votes votes_{};            ///< of the last block barrier
  bool abandoned_ = false;
  std::exception_ptr error_;
  std::mt19937_64 random_;
  std::uint64_t switches_ = 0;
};

/// The running block; throws where a device function is called outside a kernel.
Block& current_block(const char* operation);

}  // namespace simt::machine
