#pragma once

#include <span>

#include "harness/acceptance/study/study.h"

namespace mtpcheck {

/// A probability known to lie in an interval; a point for traces with whole logits.
struct Bounded {
  double low = 0;
  double high = 0;
};

/// One draft against the target's row that judges it.
struct Judgement {
  DepthOutcome outcome;  ///< all but reach
  Bounded expected;      ///< Σ min(p, q)
  Bounded continuation;  ///< min(1, q(x)/p(x)) of the token that the chain goes on with
};

/// Judges the draft's logits by row `judge` of a trace. `next` is the token the chain goes on with.
///
/// With top-N log-probabilities, what lies outside the N is bounded by the remaining mass: no token there has more than
/// min(rest, p_N), and Σ min(p, q) over them lies between 0 and min(rest of p, rest of q).
///
/// Throws Error{input} naming sequence and row when the draft's logits are NaN or all −inf.
Judgement judge_draft(const TargetTrace& trace, std::size_t judge, std::span<const float> draft, std::int64_t next,
                      const SamplingParameters& sampling);

}  // namespace mtpcheck
