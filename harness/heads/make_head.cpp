#include "harness/heads/make_head.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "reference/head/reference_head.h"
#include "reference/tensor/error.h"
#ifdef MTPCHECK_HAS_TORCH
#include "reference/torch/torch_head.h"
#endif
#if defined(MTPCHECK_HAS_CUDA_EMULATED) || defined(MTPCHECK_HAS_CUDA_DEVICE)
#include "cuda/head/make_cuda_head.h"
#endif

namespace mtpcheck {
namespace {

constexpr std::array<std::string_view, 4> kHeads{"reference", "torch", "cuda", "cuda-emulated"};

Error cannot_compute(const HeadChoice& choice, std::string_view can) {
  return usage_error(fmt::format("the {} head does not compute in '{}': {}", choice.head, choice.dtype, can));
}

[[maybe_unused]] Error not_built(const HeadChoice& choice, std::string_view how) {
  return environment_error(fmt::format("this build has no {} head: {}", choice.head, how));
}

std::unique_ptr<Head> reference_head(const HeadChoice& choice, const HeadConfig& config, const HeadWeights& weights,
                                     const Conventions& conventions) {
  const auto precision = precision_from_name(choice.dtype);
  if (!precision) throw cannot_compute(choice, "f64, f32, bf16 and f16 were expected");
  ReferenceOptions options;
  options.precision = *precision;
  options.activations = choice.activations;
  options.rounding_preset = choice.rounding_preset;
  options.deviations = choice.deviations;
  return make_reference_head(config, weights, conventions, options);
}

std::unique_ptr<Head> torch_head([[maybe_unused]] const HeadChoice& choice, [[maybe_unused]] const HeadConfig& config,
                                 [[maybe_unused]] const HeadWeights& weights,
                                 [[maybe_unused]] const Conventions& conventions) {
#ifdef MTPCHECK_HAS_TORCH
  const auto precision = precision_from_name(choice.dtype);
  if (!precision) throw cannot_compute(choice, "f64, f32, bf16 and f16 were expected");
  return make_torch_head(config, weights, conventions, dtype_of(*precision), choice.threads);
#else
  throw not_built(choice, "LibTorch was not found when it was configured (./demo.sh installs it)");
#endif
}

std::unique_ptr<Head> emulated_head([[maybe_unused]] const HeadChoice& choice,
                                    [[maybe_unused]] const HeadConfig& config,
                                    [[maybe_unused]] const HeadWeights& weights,
                                    [[maybe_unused]] const Conventions& conventions) {
#ifdef MTPCHECK_HAS_CUDA_EMULATED
  return make_emulated_cuda_head(config, weights, conventions);
#else
  throw not_built(choice, "CUDA's headers or Boost.Context were not found when it was configured");
#endif
}

std::unique_ptr<Head> device_head([[maybe_unused]] const HeadChoice& choice, [[maybe_unused]] const HeadConfig& config,
                                  [[maybe_unused]] const HeadWeights& weights,
                                  [[maybe_unused]] const Conventions& conventions) {
#ifdef MTPCHECK_HAS_CUDA_DEVICE
  return make_device_cuda_head(config, weights, conventions);
#else
  throw not_built(choice, "nvcc was not found when it was configured; cuda-emulated runs the same kernels on the CPU");
#endif
}

}  // namespace

std::vector<std::string> available_heads() {
  std::vector<std::string> heads{"reference"};
#ifdef MTPCHECK_HAS_TORCH
  heads.emplace_back("torch");
#endif
#ifdef MTPCHECK_HAS_CUDA_DEVICE
  heads.emplace_back("cuda");
#endif
#ifdef MTPCHECK_HAS_CUDA_EMULATED
  heads.emplace_back("cuda-emulated");
#endif
  return heads;
}

std::string default_dtype(const std::string& head) { return head.starts_with("cuda") ? "bf16" : "f32"; }

std::unique_ptr<Head> make_head(const HeadChoice& choice, const HeadConfig& config, const HeadWeights& weights,
                                const Conventions& conventions) {
  if (std::ranges::find(kHeads, choice.head) == kHeads.end()) {
    throw usage_error(fmt::format("'{}' is no head: {} were expected", choice.head, fmt::join(kHeads, ", ")));
  }
  if (choice.head == "reference") return reference_head(choice, config, weights, conventions);
  if (choice.head == "torch") return torch_head(choice, config, weights, conventions);
  if (choice.dtype != "bf16") throw cannot_compute(choice, "its kernels compute in bf16");
  return choice.head == "cuda" ? device_head(choice, config, weights, conventions)
                               : emulated_head(choice, config, weights, conventions);
}

}  // namespace mtpcheck
