#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/simt/qualifiers.h"

/// One way to start a kernel under both compilers:
///
///   simt::launch(kernel, grid, block, shared_bytes, arguments...)             on the default stream
///   simt::launch_on(stream, kernel, grid, block, shared_bytes, arguments...)
///
/// On the device the call is asynchronous and throws mtpcheck::Error where CUDA refuses the launch, with kernel, shape
/// and reason. On the CPU it returns when the grid has run, ignores the stream, and throws KernelError where the kernel
/// does what a GPU punishes.
#if defined(__CUDACC__)

#include "cuda/simt/device_launch.h"

namespace simt {

using Stream = cudaStream_t;

inline namespace SIMT_BACKEND {

template <class... Parameters, class... Arguments>
void launch_on(Stream stream, void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
               const Arguments&... arguments) {
  const auto* address = reinterpret_cast<const void*>(kernel);
  allow_shared_bytes(address, shared_bytes);
  kernel<<<grid, block, shared_bytes, stream>>>(Parameters(arguments)...);
  check_launch(address, grid, block, shared_bytes);
}

}  // namespace SIMT_BACKEND
}  // namespace simt

#else

#include <functional>
#include <tuple>

#include "cuda/simt/kernel_error.h"

struct CUstream_st;

namespace simt {

using Stream = CUstream_st*;  ///< CUDA's own handle type, so that headers may name it without CUDA

/// In which order the threads of a block are executed between two barriers. A kernel without races gives the same
/// result in every order.
enum class Order {
  ascending,   ///< warp 0 first, lane 0 first
  descending,  ///< the last warp and lane first
  shuffled,    ///< drawn from the seed, anew after every barrier; atomics may switch threads too
};

struct Options {
  Order order = Order::ascending;
  std::uint64_t seed = 0;           ///< of Order::shuffled: same seed, same order, whatever the number of workers
  unsigned workers = 1;             ///< CPU threads that share the blocks of a grid; 1 in AddressSanitizer builds
  bool allow_early_exit = false;    ///< threads may return while others still meet at barriers, as hardware permits
  bool check_accesses = true;       ///< in checked kernels: bounds, reads of what nothing wrote, races
  std::size_t stack_bytes = 65536;  ///< of each thread; four times as much in AddressSanitizer builds
};

/// The options of launches made by this CPU thread.
const Options& options();

/// Sets them for a scope.
class ScopedOptions {
 public:
  explicit ScopedOptions(const Options& options);
  ~ScopedOptions();
  ScopedOptions(const ScopedOptions&) = delete;
  ScopedOptions& operator=(const ScopedOptions&) = delete;

 private:
  Options previous_;
};

/// What the last launch of this CPU thread took.
struct LaunchStatistics {
  std::uint64_t blocks = 0;
  std::uint64_t switches = 0;  ///< from the scheduler into a thread
};
const LaunchStatistics& last_launch();

struct Grid {
  const void* kernel;  ///< its address, by which reports find its name
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes;
  bool observed;  ///< the kernel was compiled with mtpcheck_add_checked_kernels
};

/// Runs `thread` once for every thread of the grid. launch() is what kernels' callers use.
void execute(const Grid& grid, const std::function<void()>& thread);

inline namespace SIMT_BACKEND {

template <class... Parameters, class... Arguments>
void launch_on(Stream /*stream*/, void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
               const Arguments&... arguments) {
  const std::tuple<Parameters...> bound(static_cast<Parameters>(arguments)...);
  execute(Grid{reinterpret_cast<const void*>(kernel), grid, block, shared_bytes, SIMT_OBSERVED},
          [&] { std::apply(kernel, bound); });
}

}  // namespace SIMT_BACKEND
}  // namespace simt

#endif

namespace simt::inline SIMT_BACKEND {

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            const Arguments&... arguments) {
  launch_on(Stream{}, kernel, grid, block, shared_bytes, arguments...);
}

}  // namespace simt::inline SIMT_BACKEND
