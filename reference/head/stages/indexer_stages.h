#pragma once

#include "reference/head/stages/frame.h"

namespace mtpcheck {

/// indexer_q: W_qb q_c, the last r of each head's d entries rotated; codes with a scale a head under indexer_fp8.
/// [T, h·d]
template <class S>
void compute_indexer_query(Frame<S>& frame);

/// indexer_k: LayerNorm of W_k x, the last r entries rotated; codes with one scale under indexer_fp8.   [T, d]
template <class S>
void compute_indexer_key(Frame<S>& frame);

/// indexer_weights: W_w x · d^−½ h^−½.   [T, h]
template <class S>
Rows<S> indexer_weights(const Frame<S>& frame);

/// indexer_scores of each sequence, [T, S], −∞ where not causal, into frame.indexer_scores.
template <class S>
void compute_index_scores(Frame<S>& frame);

/// topk_indices: the keys of each row, ascending; from frame.indexer_scores where filled, else scored a row at a time
/// and forgotten, so that no T×S matrix exists.
template <class S>
KeyChoice compute_topk_indices(const Frame<S>& frame);

}  // namespace mtpcheck
