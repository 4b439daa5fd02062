#include "harness/acceptance/statistics/row_kernel_body.h"

namespace mtpcheck::row_kernel {

const Kernels kBaseline{"baseline", scan_row, minima_of_block};

}  // namespace mtpcheck::row_kernel
