#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/parity/metrics/error_sums.h"
#include "reference/linear/instruction_set.h"

namespace mtpcheck {

enum class KernelType : std::uint8_t { f64, f32, bf16 };

/// Elements that a kernel is given at most in one call: its partial sums stay short, and the place of the largest error
/// is looked up in cache.
inline constexpr std::size_t kKernelBlock = 4096;

/// Gathers the sums of `count` elements; the pointers need not be aligned. The index of the largest error is looked up
/// only when that error is above `max_so_far`.
using ErrorKernel = ErrorSums (*)(const std::byte* candidate, const std::byte* reference, std::size_t count,
                                  double max_so_far);

/// The variant for this pairing of types and for the chosen instruction set. All variants give the same bits: sixteen
/// lanes of float64, the same fused operations, one order of adding.
ErrorKernel error_kernel(KernelType candidate, KernelType reference);

/// What `error_kernel` chooses from, for tests.
ErrorKernel error_kernel(KernelType candidate, KernelType reference, InstructionSet set);

/// One a set, each compiled with its own flags.
ErrorKernel error_kernel_portable(KernelType candidate, KernelType reference);
ErrorKernel error_kernel_avx2(KernelType candidate, KernelType reference);
ErrorKernel error_kernel_avx512(KernelType candidate, KernelType reference);

}  // namespace mtpcheck
