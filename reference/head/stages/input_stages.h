#pragma once

#include "reference/head/stages/frame.h"

namespace mtpcheck {

/// embed_masked: the embedding of the shifted token, zero where the position is 0.   [T, H]
template <class S>
Rows<S> embed_masked(const Frame<S>& frame);

/// hnorm: RMSNorm of the target's hidden state.   [T, H]
template <class S>
Rows<S> hnorm(const Frame<S>& frame);

/// eh_proj: W_eh [enorm ‖ hnorm].   [T, H]
template <class S>
Rows<S> eh_proj(const Frame<S>& frame);

}  // namespace mtpcheck
