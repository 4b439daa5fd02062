#include "reference/linear/kernel_body.h"

namespace mtpcheck::kernel {

const Kernels kBaseline{"baseline", product<float>, product<double>, decode<float>, decode<double>};

}  // namespace mtpcheck::kernel
