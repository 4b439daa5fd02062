#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "cuda/simt/kernel_error.h"
#include "cuda/simt/launch.h"
#include "cuda/simt/machine/block.h"
#include "cuda/simt/machine/symbols.h"

namespace simt {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool address_sanitizer = true;
#else
constexpr bool address_sanitizer = false;
#endif

thread_local Options current_options;
thread_local LaunchStatistics statistics;

/// The CPU thread's Block, kept with its fibers for the next launch.
machine::Block& pooled_block(std::size_t stack_bytes) {
  thread_local std::unique_ptr<machine::Block> pool;
  if (!pool || pool->stack_bytes() < stack_bytes) pool = std::make_unique<machine::Block>(stack_bytes);
  return *pool;
}

std::uint64_t volume(const dim3& extent) { return static_cast<std::uint64_t>(extent.x) * extent.y * extent.z; }

void check_shape(const Grid& grid) {
  const auto refuse = [&](const std::string& reason) {
    throw KernelError(
        fmt::format("kernel {}: launch of grid ({},{},{}), block ({},{},{}), {} bytes of shared memory: {}",
                    machine::function_name(grid.kernel), grid.grid.x, grid.grid.y, grid.grid.z, grid.block.x,
                    grid.block.y, grid.block.z, grid.shared_bytes, reason));
  };
  if (volume(grid.grid) == 0 || volume(grid.block) == 0) refuse("an extent is zero");
  if (volume(grid.block) > machine::Block::max_threads) refuse("a block has at most 1024 threads");
  if (grid.block.z > 64) refuse("a block has at most 64 threads in z");
  if (grid.grid.x > 0x7FFFFFFFu || grid.grid.y > 65535 || grid.grid.z > 65535)
    refuse("a grid has at most (2147483647,65535,65535) blocks");
  if (grid.shared_bytes > machine::SharedMemory::limit) refuse("a block has at most 227 KiB of shared memory");
}

}  // namespace

const Options& options() { return current_options; }

ScopedOptions::ScopedOptions(const Options& options) : previous_(current_options) { current_options = options; }
ScopedOptions::~ScopedOptions() { current_options = previous_; }

const LaunchStatistics& last_launch() { return statistics; }

void execute(const Grid& grid, const std::function<void()>& thread) {
  check_shape(grid);
  if (machine::Block::current() != nullptr)
    throw KernelError(fmt::format("kernel {}: launched from inside a kernel", machine::function_name(grid.kernel)));
  const Options options = current_options;
  const std::size_t stack_bytes = options.stack_bytes * (address_sanitizer ? 4 : 1);
  const std::uint64_t blocks = volume(grid.grid);

  std::atomic<std::uint64_t> next{0};
  std::atomic<std::uint64_t> switches{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  const auto work = [&] {
    try {
      machine::Block& block = pooled_block(stack_bytes);
      block.begin_grid(grid, options, thread);
      for (std::uint64_t i = next++; i < blocks && !failed; i = next++) block.run(i);
      switches += block.switches();
    } catch (...) {
      if (!failed.exchange(true)) error = std::current_exception();
    }
  };

  const auto workers = address_sanitizer ? 1 : std::min<std::uint64_t>(std::max(options.workers, 1u), blocks);
  if (workers == 1) {
    work();
  } else {
    std::vector<std::jthread> threads;
    for (std::uint64_t i = 0; i < workers; ++i) threads.emplace_back(work);
  }
  statistics = {blocks, switches};
  if (error) std::rethrow_exception(error);
}

}  // namespace simt
