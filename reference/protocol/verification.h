#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "reference/protocol/distribution.h"

namespace mtpcheck {

/// What a verification of K drafts hands back: the accepted drafts, and one more token.
struct Verified {
  std::size_t accepted = 0;          ///< drafts accepted, 0 … K
  std::vector<std::int64_t> tokens;  ///< accepted + 1 tokens: the drafts, then the correction or the bonus
};

/// Greedy verification: drafts are accepted while each equals the target's first largest logit; then that token
/// follows, or the bonus token after a full acceptance.
///
/// drafts  [K]     target_argmax  [K+1], the last one the bonus
Verified verify_greedy(std::span<const std::int64_t> drafts, std::span<const std::int64_t> target_argmax);

/// Draws for one request: `uniform(i)` in [0, 1), i = 0 … 2K. Draw 2k decides draft k, draw 2k+1 the token after a
/// rejection at k, draw 2K the bonus.
using Uniforms = std::function<double(std::size_t)>;

/// Verification by rejection sampling: draft x from q is accepted while u < min(1, p(x)/q(x)); a rejected one is
/// replaced by a sample of the residual, and after K acceptances a bonus token is sampled from the last p. The tokens
/// are then distributed as the target's own, whatever q is.
///
/// drafts  [K], drawn from draft[k]     target  [K+1] distributions     draft  [K] distributions
/// Throws Error{input} for a draft of probability 0 under its own q: it cannot have been drawn from it (FAULTS S01).
///
/// Source: Leviathan et al. 2022, algorithm 1; Chen et al. 2023, algorithm 2.
Verified verify_by_rejection(std::span<const std::int64_t> drafts, std::span<const Distribution> target,
                             std::span<const Distribution> draft, const Uniforms& uniform);

/// The same for drafts that were chosen without sampling (greedy drafts, n-grams): q is 1 at the draft, so it is
/// accepted with probability p(x) and the residual is p without x, as vLLM does when it has no draft probabilities.
Verified verify_deterministic_drafts(std::span<const std::int64_t> drafts, std::span<const Distribution> target,
                                     const Uniforms& uniform);

}  // namespace mtpcheck
