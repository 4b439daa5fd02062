#pragma once

#include <memory>

#include "reference/model/config.h"
#include "reference/model/conventions.h"
#include "reference/model/head.h"
#include "reference/model/weights.h"

namespace mtpcheck {

/// The optimised head on the device. Throws Error{environment} that says what is missing: driver, device, memory.
std::unique_ptr<Head> make_device_cuda_head(const HeadConfig& config, const HeadWeights& weights,
                                            const Conventions& conventions);

/// The same kernels, executed on the CPU by the fibers of cuda/simt. Needs nothing of CUDA at run time.
std::unique_ptr<Head> make_emulated_cuda_head(const HeadConfig& config, const HeadWeights& weights,
                                              const Conventions& conventions);

}  // namespace mtpcheck
