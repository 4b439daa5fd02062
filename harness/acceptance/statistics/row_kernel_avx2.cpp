#include "harness/acceptance/statistics/row_kernel_body.h"

namespace mtpcheck::row_kernel {

const Kernels kAvx2{"avx2", scan_row, minima_of_block};

}  // namespace mtpcheck::row_kernel
