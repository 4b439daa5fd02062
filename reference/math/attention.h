#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "reference/math/rounding.h"

namespace mtpcheck {

/// How a rounded run keeps what lies between scores and output.
struct AttentionRounding {
  Format format = Format::exact;
  bool logits = false;       ///< q·k stored, and again after the scale (eager attention)
  bool normalised = false;   ///< probabilities stored after the division by their sum (eager attention)
  bool exponential = false;  ///< e^(x − max) stored for the second product, the sum kept wide (flash attention)
};

/// Attention of one token's heads over some keys, and the sink.
///
///   l_j = scale · q·k_j      p_j = e^(l_j − m) / (Σ_i e^(l_i − m) + e^(sink − m))      out = Σ_j p_j v_j
///
/// with m the largest of the logits and the sink. A head with no key and no sink gives zeros.
/// Source: Vaswani et al. 2017, eq. 1; the sink as in Xiao et al. 2023 and gpt-oss.
template <class S>
struct Attention {
  const S* queries = nullptr;  // [heads, width], query_stride apart
  std::size_t query_stride = 0;
  std::size_t heads = 0;
  std::size_t width = 0;
  const S* keys = nullptr;  // [S, width], key_stride apart, shared by the heads
  std::size_t key_stride = 0;
  const S* values = nullptr;  // [S, value_width], value_stride apart
  std::size_t value_stride = 0;
  std::size_t value_width = 0;
  std::span<const std::int32_t> selected;  // ascending key indices
  S scale = 1;
  std::span<const S> sinks;  // [heads]; empty: none
  AttentionRounding rounding;
};

/// out            [heads, value_width], out_stride apart
/// probabilities  [heads, selected], one row a head, or nullptr
template <class S>
void attend(const Attention<S>& attention, S* out, std::size_t out_stride, S* probabilities);

/// The softmax alone, in place, over `count` logits and the sink. Returns the sum of exponentials; what is left in
/// `logits` is e^(l − m), undivided.
template <class S>
S softmax_exponentials(S* logits, std::size_t count, std::optional<S> sink);

}  // namespace mtpcheck
