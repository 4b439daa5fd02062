#include "harness/acceptance/statistics/row_kernel.h"

#include "reference/linear/kernel.h"

namespace mtpcheck::row_kernel {

const Kernels& chosen() {
#if defined(__x86_64__)
  if (&kernel::chosen() == &kernel::kAvx512) return kAvx512;
  if (&kernel::chosen() == &kernel::kAvx2) return kAvx2;
#endif
  return kBaseline;
}

}  // namespace mtpcheck::row_kernel
