#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "harness/loading/carry_out/fill.h"
#include "harness/loading/plan/plan.h"
#include "reference/tensor/tensor.h"

namespace mtpcheck {

/// A parameter with its bytes, as the engine holds it when load_weights has returned and nothing has been processed.
struct CarriedOut {
  Tensor tensor;
  std::size_t unwritten = 0;  ///< elements that keep their fill
};

/// Performs the plan's writes to one parameter, in order. The views' `bytes` must be there for every tensor that is
/// read (`tensors` are the request's headers, opened with data); conversions are torch's, bit for bit.
///
/// Throws Error{input} where the data of a tensor is missing.
CarriedOut carry_out(const LoadPlan& plan, std::uint32_t parameter, std::span<const TensorView> tensors,
                     Fill fill = Fill::initial, std::uint64_t seed = 0);

/// SHA-256 in lower-case hexadecimal, e.g. of a parameter's bytes: little-endian, row-major.
std::string sha256(std::span<const std::byte> bytes);

}  // namespace mtpcheck
