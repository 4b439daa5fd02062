#pragma once

#include <cstdint>

#include "reference/math/rounding.h"
#include "reference/math/rows.h"
#include "reference/model/weights.h"

namespace mtpcheck {

/// Where a rounded RMSNorm casts: the normalised value before the weight is applied, or the product.
enum class NormOrder : std::uint8_t {
  cast_then_weight,  ///< cast(x / rms) · w, rounded again: transformers, vLLM
  weight_then_cast,  ///< cast(x / rms · w): fused kernels that keep float32 to the end
};

struct NormRounding {
  Format format = Format::exact;
  NormOrder order = NormOrder::cast_then_weight;
};

/// x / √(mean(x²) + ε) · w of each row.
///
/// x [T, H], weight [H] → [T, H]
/// Source: Zhang & Sennrich 2019, eq. 4, with ε inside the root as in LLaMA.
template <class S>
Rows<S> rms_norm(const Rows<S>& x, const Vector& weight, double eps, NormRounding rounding = {});

/// (x − mean) / √(var + ε) · w + b of each row, with the biased variance.
///
/// x [T, d], weight and bias [d] → [T, d]
/// Source: Ba et al. 2016, section 3.
template <class S>
Rows<S> layer_norm(const Rows<S>& x, const Vector& weight, const Vector& bias, double eps,
                   Format format = Format::exact);

}  // namespace mtpcheck
