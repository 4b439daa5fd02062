#include "cuda/head/cuda_head.h"
#include "cuda/head/make_cuda_head.h"

namespace mtpcheck {

std::unique_ptr<Head> make_device_cuda_head(const HeadConfig& config, const HeadWeights& weights,
                                            const Conventions& conventions) {
  return std::make_unique<cuda::CudaHead>(config, weights, conventions);
}

}  // namespace mtpcheck
