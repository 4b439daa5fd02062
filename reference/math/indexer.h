#pragma once

#include <cstddef>
#include <span>

namespace mtpcheck {

/// The lightning indexer's scores of one token against keys 0 … count−1:  s_j = κ_j Σ_h w_h · relu(q_h · k_j).
///
/// queries     [h, d], one row a head
/// weights     [h], both scales (d^−½ h^−½) included
/// keys        [count, d], key_stride apart
/// key_scales  [count]; empty: 1. Quantised keys are codes with a scale each.
/// relu        false leaves it out: a known way of going wrong
///
/// Source: DeepSeek-V3.2-Exp, eq. 1.
template <class S>
void index_scores(const S* queries, std::span<const S> weights, std::size_t d, const S* keys, std::size_t key_stride,
                  std::span<const S> key_scales, std::size_t count, S* scores, bool relu = true);

}  // namespace mtpcheck
