#pragma once

#include "reference/head/stages/frame.h"
#include "reference/math/rope.h"

namespace mtpcheck {

/// cos and sin of each row's position.
template <class S>
Rotation<S> rotation_of(const Frame<S>& frame);

/// q_rope: the rotated last r entries of each head of q.   [T, N·r]
template <class S>
Rows<S> q_rope(const Frame<S>& frame);

/// kv_c: RMSNorm of the first Lkv entries of kv_a.   [T, Lkv]
template <class S>
Rows<S> kv_c(const Frame<S>& frame);

/// k_pe: the rotated last r entries of kv_a.   [T, r]
template <class S>
Rows<S> k_pe(const Frame<S>& frame);

/// gate: W_g x, a head's one value repeated over its channels where the gate is headwise.   [T, N·v]
template <class S>
Rows<S> gate(const Frame<S>& frame);

/// gated: attn_out · sigmoid(gate).   [T, N·v]
template <class S>
Rows<S> gated(const Frame<S>& frame);

}  // namespace mtpcheck
