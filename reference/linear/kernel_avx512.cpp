#include "reference/linear/kernel_body.h"

namespace mtpcheck::kernel {

const Kernels kAvx512{"avx512", product<float>, product<double>, decode<float>, decode<double>};

}  // namespace mtpcheck::kernel
