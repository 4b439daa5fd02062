#include "harness/parity/metrics/kernel/error_kernel.h"

namespace mtpcheck {

bool supported(KernelLevel level) {
#ifdef __x86_64__
  if (level == KernelLevel::avx512) {
    return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
           __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  }
  if (level == KernelLevel::avx2) return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
#endif
  return level == KernelLevel::portable;
}

ErrorKernel error_kernel(KernelType candidate, KernelType reference, KernelLevel level) {
#ifdef __x86_64__
  if (level == KernelLevel::avx512) return error_kernel_avx512(candidate, reference);
  if (level == KernelLevel::avx2) return error_kernel_avx2(candidate, reference);
#endif
  (void)level;
  return error_kernel_portable(candidate, reference);
}

ErrorKernel error_kernel(KernelType candidate, KernelType reference) {
  static const KernelLevel best = supported(KernelLevel::avx512) ? KernelLevel::avx512
                                  : supported(KernelLevel::avx2) ? KernelLevel::avx2
                                                                 : KernelLevel::portable;
  return error_kernel(candidate, reference, best);
}

}  // namespace mtpcheck
