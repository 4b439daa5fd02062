#pragma once

#include <cstddef>
#include <cstdint>

#include "reference/math/rows.h"

namespace mtpcheck {

/// What a scale may be.
enum class ScaleFormat : std::uint8_t {
  float32,       ///< max(|group|, 1e−10) · (1/448)
  power_of_two,  ///< the same, rounded up to a power of two (UE8M0): nothing saturates
};

/// Rows quantised to E4M3 in groups of columns: x ≈ codes · scale of the group.
template <class S>
struct Quantised {
  Rows<S> codes;   // [T, d], E4M3 values as numbers
  Rows<S> scales;  // [T, ⌈d / group⌉]
};

/// Dynamic quantisation of activations, one scale a token and group of `group` columns; arithmetic in float32, as
/// kernels do it, also in a float64 run.
///
/// Groups of 128 are what FP8 block engines use for W8A8, 32 with power-of-two scales MXFP8; the whole row with
/// power-of-two scales is the lightning indexer's query and its key cache.
template <class S>
Quantised<S> quantise(const Rows<S>& x, std::size_t group, ScaleFormat format);

/// codes · scales: what a linear layer with quantised activations multiplies with.
template <class S>
Rows<S> dequantised(const Quantised<S>& x, std::size_t group);

}  // namespace mtpcheck
