#include "harness/parity/metrics/kernel/error_kernel_body.h"

namespace mtpcheck {

ErrorKernel error_kernel_avx2(KernelType candidate, KernelType reference) { return kernel_for(candidate, reference); }

}  // namespace mtpcheck
