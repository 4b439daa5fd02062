#include "harness/parity/metrics/kernel/error_kernel.h"

namespace mtpcheck {

ErrorKernel error_kernel(KernelType candidate, KernelType reference, InstructionSet set) {
#ifdef __x86_64__
  if (set == InstructionSet::avx512) return error_kernel_avx512(candidate, reference);
  if (set == InstructionSet::avx2) return error_kernel_avx2(candidate, reference);
#endif
  (void)set;
  return error_kernel_portable(candidate, reference);
}

ErrorKernel error_kernel(KernelType candidate, KernelType reference) {
  return error_kernel(candidate, reference, chosen_instruction_set());
}

}  // namespace mtpcheck
