#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reference/math/rounding.h"
#include "reference/math/rows.h"
#include "reference/model/config.h"
#include "reference/model/conventions.h"

namespace mtpcheck {

/// Angles per position of each pair, and the factor on cos and sin (YaRN's attention factor, 1 elsewhere).
template <class S>
struct RopeFrequencies {
  std::vector<S> inverse;  // [rope / 2]
  S attention_factor = 1;
};

/// θ^(−2i/rope), scaled as `rope_parameters` says: default, linear, ntk, dynamic, yarn (also deepseek_yarn), llama3.
/// Computed in S throughout, as an engine does in float32.
///
/// rope              rotated dimensions, even
/// max_positions     max_position_embeddings of the config, 0 when not stated
/// longest           positions in use (the largest + 1); only `dynamic` depends on it
///
/// Throws Error{input} for another type, or one whose parameters are missing.
/// Source: Su et al. 2021 (RoPE), Peng et al. 2023 (YaRN and NTK-aware scaling), Llama 3.1's rope scaling.
template <class S>
RopeFrequencies<S> rope_frequencies(const RopeParameters& parameters, std::size_t rope, std::size_t max_positions,
                                    std::size_t longest);

/// m(s) = 0.1 · mscale · ln s + 1 for s > 1, else 1: YaRN's magnitude factor.
double yarn_magnitude(double scale, double mscale);

/// What DeepSeek's attention multiplies its softmax scale with under YaRN: m(factor, mscale_all_dim)², 1 elsewhere.
double yarn_softmax_factor(const RopeParameters& parameters);

/// cos and sin of position · frequency, [T, rope/2] each, with the attention factor in both.
template <class S>
struct Rotation {
  Rows<S> cos, sin;
};

template <class S>
Rotation<S> rotation(std::span<const std::int64_t> positions, const RopeFrequencies<S>& frequencies,
                     Format format = Format::exact);

/// Rotates pairs of each row's groups by the row's angles.
///
/// x        [T, groups · rope]
/// pairing  which entries form a pair: (2i, 2i+1) interleaved, (i, i+rope/2) half-split
template <class S>
Rows<S> rotate(const Rows<S>& x, std::size_t groups, const Rotation<S>& by, RopePairing pairing);

}  // namespace mtpcheck
