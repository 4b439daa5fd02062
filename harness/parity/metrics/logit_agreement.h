#pragma once

#include "reference/tensor/tensor.h"
#include "reports/record/comparison.h"

namespace mtpcheck {

/// Rows of logits [T, V] as distributions: KL divergence of the candidate from the reference, and whether their best
/// tokens agree. Ties go to the lowest index. A row with a NaN, or without a finite logit, has an infinite divergence.
reports::LogitsRecord logit_agreement(const TensorView& candidate, const TensorView& reference);

}  // namespace mtpcheck
