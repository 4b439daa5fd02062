#include "harness/acceptance/statistics/row_kernel.h"

#include "reference/linear/instruction_set.h"

namespace mtpcheck::row_kernel {

const Kernels& chosen() {
#if defined(__x86_64__)
  if (chosen_instruction_set() == InstructionSet::avx512) return kAvx512;
  if (chosen_instruction_set() == InstructionSet::avx2) return kAvx2;
#endif
  return kBaseline;
}

}  // namespace mtpcheck::row_kernel
