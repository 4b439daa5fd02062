#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/head/shape.h"

/// The least a decode step can take: what each kernel must read, write and multiply, at a device's rates.
namespace mtpcheck::cuda {

/// NVIDIA H200 SXM: HBM3e bandwidth and dense bf16 tensor-core rate as measured by long kernels.
struct DeviceRates {
  double bytes_per_second = 4.8e12;
  double flops_per_second = 790e12;
};

/// How the weights are stored that checkpoints quantise. eh_proj, the indexer's wk and weights_proj, the router and
/// lm_head stay bf16 (the router float32).
enum class WeightStorage : std::uint8_t {
  bf16,
  fp8_block,  ///< E4M3 and a float32 for 128 × 128
  mxfp8,      ///< E4M3 and a byte for 1 × 32
};

struct KernelCost {
  std::string kernel;
  double bytes = 0;
  double flops = 0;
  double seconds(const DeviceRates& rates) const;
};

/// A decode step of one draft token for each of `tokens` sequences that see `keys` keys each, in launch order. Experts
/// in use are the expected number of different ones if each token's are drawn independently.
std::vector<KernelCost> decode_costs(const HeadShape& shape, WeightStorage storage, int tokens, int keys);

double expected_experts(const HeadShape& shape, int tokens);
double total_seconds(const std::vector<KernelCost>& costs, const DeviceRates& rates);

/// tencent/Hy4-preview's MTP layer.
HeadShape hy4_preview();

}  // namespace mtpcheck::cuda
