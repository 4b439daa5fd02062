#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/loading/plan/plan.h"
#include "reference/model/weights.h"
#include "reference/tensor/tensor.h"

namespace mtpcheck {

/// What elements hold that nothing wrote.
enum class Fill : std::uint8_t {
  initial,  ///< what the engine puts there: 1, −∞, finfo.min, …; `nan` where it puts nothing
  nan,      ///< NaN, 255 for unsigned integers
  zero,
  sentinel,  ///< finfo(float32).min or the dtype's lowest number
  random,    ///< normal with deviation 0.02, from `seed`
};

/// A parameter with its bytes, as the engine holds it when load_weights has returned and nothing has been processed.
struct CarriedOut {
  Tensor tensor;
  std::size_t unwritten = 0;  ///< elements
};

/// Performs the plan's writes to one parameter, in order. The headers' `bytes` must be there for every tensor that is
/// read; conversions are torch's, bit for bit.
CarriedOut carry_out(const LoadPlan& plan, std::uint32_t parameter, std::span<const TensorView> tensors,
                     Fill fill = Fill::initial, std::uint64_t seed = 0);

/// SHA-256 of a parameter's bytes, lower-case hexadecimal.
std::string sha256(std::span<const std::byte> bytes);

/// The weights that a head runs on, as this load left them: every parameter carried out.
///
/// Throws Error{input} where the engine would refuse to build the model, where the load stops with an exception, for
/// NVFP4, and for more than one rank: a head needs the whole of every matrix.
HeadWeights weights_as_loaded(const LoadPlan& plan, const HeadConfig& config, std::span<const TensorView> tensors,
                              const Topology& topology, Fill fill = Fill::initial, std::uint64_t seed = 0);

}  // namespace mtpcheck
