#include "reference/head/stages/latent_attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "reference/head/stages/projection.h"
#include "reference/linear/linear.h"
#include "reference/math/attention.h"
#include "reference/math/rope.h"

namespace mtpcheck {
namespace {

/// Sizes and pieces that every part of the computation needs.
template <class S>
struct Parts {
  explicit Parts(const Frame<S>& frame)
      : layer(frame.layer),
        heads(layer.config.num_attention_heads),
        nope(layer.config.qk_nope_head_dim),
        rope(layer.config.qk_rope_head_dim),
        value(layer.config.v_head_dim),
        rank(layer.config.kv_lora_rank),
        kv_b(as_read(layer, layer.weights.kv_b_proj)) {
    const auto size = static_cast<double>(layer.deviations.softmax_scale_nope_only ? nope : nope + rope);
    const double factor = layer.conventions.yarn_softmax_scale ? yarn_softmax_factor(layer.config.rope) : 1.0;
    scale = static_cast<S>(factor / std::sqrt(size));
    if (!layer.deviations.ignore_sink) {
      for (const double sink : layer.weights.sink) {
        sinks.push_back(layer.deviations.sink_bf16 ? static_cast<S>(round_to_bf16(static_cast<float>(sink)))
                                                   : static_cast<S>(sink));
      }
    }
  }

  Matrix key_up(std::size_t head) const { return rows_of(kv_b, head * (nope + value), nope); }
  Matrix value_up(std::size_t head) const { return rows_of(kv_b, head * (nope + value) + nope, value); }
  std::span<const S> sinks_of(std::size_t head, std::size_t count) const {
    return sinks.empty() ? std::span<const S>() : std::span<const S>(sinks).subspan(head, count);
  }
  Format format_at(RoundingPoint point) const { return layer.rounding.format_at(point); }

  const LayerDefinition& layer;
  std::size_t heads, nope, rope, value, rank;
  Matrix kv_b;
  S scale;
  std::vector<S> sinks;
};

/// The keys of a row, ascending: its selection, or every key up to itself.
template <class S>
class VisibleKeys {
 public:
  explicit VisibleKeys(const Frame<S>& frame)
      : frame_(frame), sparse_(frame.layer.config.sparse_attention && !frame.layer.deviations.dense_attention) {
    std::size_t longest = 0;
    for (const auto& sequence : frame.sequences) longest = std::max(longest, sequence.keys());
    if (!sparse_) all_.resize(longest);
    std::iota(all_.begin(), all_.end(), 0);
  }
  std::span<const std::int32_t> of(const SequenceRows<S>& sequence, std::size_t row) const {
    if (sparse_) return frame_.topk_indices[sequence.first + row];
    return std::span(all_).first(sequence.cached + row + 1);
  }

  /// The most that a row of the sequence can see.
  std::size_t most(const SequenceRows<S>& sequence) const {
    return sparse_ ? std::min(frame_.layer.config.index_topk, sequence.keys()) : sequence.keys();
  }

 private:
  const Frame<S>& frame_;
  bool sparse_;
  std::vector<std::int32_t> all_;
};

/// Where a row's probabilities of one head go: a row of [N·T, S].
template <class S>
void keep(std::vector<Rows<S>>& kept, const SequenceRows<S>& sequence, std::size_t s, std::size_t head, std::size_t row,
          std::span<const std::int32_t> keys, const S* probabilities) {
  for (std::size_t j = 0; j < keys.size(); ++j) {
    kept[s](static_cast<Eigen::Index>(head * sequence.count + row), keys[j]) = probabilities[j];
  }
}

/// W_uk,hᵀ as [Lkv, n], decoded.
template <class S>
Rows<S> transposed_key_up(const Parts<S>& parts, std::size_t head) {
  return decode_all<S>(parts.key_up(head)).transpose();
}

/// [q̃_h ‖ q_rope,h] of rows [first, first + count), [count, N·(Lkv + r)].
template <class S>
Rows<S> absorbed_queries(const Frame<S>& frame, const Parts<S>& parts, std::size_t first, std::size_t count) {
  const std::size_t width = parts.rank + parts.rope;
  const auto& q = frame.at(Stage::q);
  const auto& q_rope = frame.at(Stage::q_rope);
  Rows<S> out(static_cast<Eigen::Index>(count), static_cast<Eigen::Index>(parts.heads * width));
  const auto first_row = static_cast<Eigen::Index>(first);
  const auto rows = static_cast<Eigen::Index>(count);
  parts.layer.pool->for_each(parts.heads, count * parts.nope * parts.rank, [&](std::size_t h) {
    const auto up = transposed_key_up(parts, h);
    product_into(q.data() + first_row * q.cols() + static_cast<Eigen::Index>(h * (parts.nope + parts.rope)),
                 static_cast<std::size_t>(q.cols()), count, up.data(), parts.nope, parts.rank, parts.nope,
                 out.data() + h * width, parts.heads * width);
    auto head = out.middleCols(h * width, width);
    if (parts.layer.rounding.at(RoundingPoint::absorbed_query)) {
      head = head.unaryExpr([&](S x) { return round_to(parts.layer.rounding.format, x); }).eval();
    }
    head.rightCols(parts.rope) =
        q_rope.block(first_row, static_cast<Eigen::Index>(h * parts.rope), rows, static_cast<Eigen::Index>(parts.rope));
  });
  return out;
}

/// out_h = W_uv,h latent_h for `count` rows; latents [count, N·Lkv] → attn_out's rows from `first` on.
template <class S>
void values_from_latents(const Parts<S>& parts, Rows<S>& latents, std::size_t first, Rows<S>& out) {
  round_all(parts.format_at(RoundingPoint::absorbed_output), latents);
  const std::size_t stride = parts.heads * parts.value;
  const auto rows = static_cast<std::size_t>(latents.rows());
  parts.layer.pool->for_each(parts.heads, rows * parts.value * parts.rank, [&](std::size_t h) {
    linear_into(latents.data() + h * parts.rank, parts.heads * parts.rank, rows, parts.value_up(h),
                out.data() + first * stride + h * parts.value, stride);
  });
}

template <class S>
void absorbed_attention(Frame<S>& frame, const Parts<S>& parts, bool keep_probabilities, Rows<S>& out) {
  constexpr std::size_t block = 64;  // rows at a time: their queries in the latent space are N·(Lkv + r) wide
  const VisibleKeys<S> visible(frame);
  const std::size_t width = parts.rank + parts.rope;
  for (std::size_t s = 0; s < frame.sequences.size(); ++s) {
    const auto& sequence = frame.sequences[s];
    for (std::size_t row0 = 0; row0 < sequence.count; row0 += block) {
      const std::size_t count = std::min(block, sequence.count - row0);
      const auto queries = absorbed_queries(frame, parts, sequence.first + row0, count);
      Rows<S> latents(static_cast<Eigen::Index>(count), static_cast<Eigen::Index>(parts.heads * parts.rank));
      // A head's result does not depend on which others are computed with it: groups only balance the threads and
      // bound the logits in memory.
      const std::size_t by_threads = (parts.heads * count) / (4 * parts.layer.pool->threads()) + 1;
      const std::size_t by_memory = (std::size_t{1} << 22) / sequence.keys() + 1;
      const std::size_t group = std::clamp<std::size_t>(std::min(by_threads, by_memory), 1, parts.heads);
      const std::size_t groups = (parts.heads + group - 1) / group;
      const std::size_t operations = group * visible.most(sequence) * (width + parts.rank);
      parts.layer.pool->for_each(count * groups, operations, [&](std::size_t item) {
        const std::size_t row = item / groups;
        const std::size_t head = item % groups * group;
        const std::size_t heads = std::min(group, parts.heads - head);
        Attention<S> attention;
        attention.queries = queries.data() + row * parts.heads * width + head * width;
        attention.query_stride = attention.width = width;
        attention.heads = heads;
        attention.keys = attention.values = sequence.cache->latents.data();
        attention.key_stride = attention.value_stride = width;
        attention.value_width = parts.rank;
        attention.selected = visible.of(sequence, row0 + row);
        attention.scale = parts.scale;
        attention.sinks = parts.sinks_of(head, heads);
        attention.rounding = parts.layer.rounding.attention_rounding();
        std::vector<S> probabilities(keep_probabilities ? heads * attention.selected.size() : 0);
        attend(attention, latents.data() + row * parts.heads * parts.rank + head * parts.rank, parts.rank,
               keep_probabilities ? probabilities.data() : nullptr);
        if (!keep_probabilities) return;
        for (std::size_t h = 0; h < heads; ++h) {
          keep(frame.attn_probs, sequence, s, head + h, row0 + row, attention.selected,
               probabilities.data() + h * attention.selected.size());
        }
      });
      values_from_latents(parts, latents, sequence.first + row0, out);
    }
  }
}

template <class S>
void expanded_attention(Frame<S>& frame, const Parts<S>& parts, bool keep_probabilities, Rows<S>& out) {
  const VisibleKeys<S> visible(frame);
  const std::size_t width = parts.nope + parts.rope;
  const std::size_t stride = parts.rank + parts.rope;
  const auto& q = frame.at(Stage::q);
  const auto& q_rope = frame.at(Stage::q_rope);
  const std::size_t operations = frame.tokens() * (parts.nope + parts.value) * parts.rank;
  parts.layer.pool->for_each(parts.heads, operations, [&](std::size_t h) {
    for (std::size_t s = 0; s < frame.sequences.size(); ++s) {
      const auto& sequence = frame.sequences[s];
      const auto keys = static_cast<Eigen::Index>(sequence.keys());
      const S* const cached = sequence.cache->latents.data();
      Rows<S> k(keys, static_cast<Eigen::Index>(width));
      Rows<S> v(keys, static_cast<Eigen::Index>(parts.value));
      linear_into(cached, stride, sequence.keys(), parts.key_up(h), k.data(), width);
      linear_into(cached, stride, sequence.keys(), parts.value_up(h), v.data(), parts.value);
      for (Eigen::Index j = 0; j < keys; ++j) {
        const S* const pe = cached + static_cast<std::size_t>(j) * stride + parts.rank;
        std::copy_n(pe, parts.rope, k.data() + static_cast<std::size_t>(j) * width + parts.nope);
      }
      round_all(parts.format_at(RoundingPoint::expanded_keys), k);
      round_all(parts.format_at(RoundingPoint::expanded_keys), v);
      std::vector<S> query(width);
      std::vector<S> probabilities;
      for (std::size_t row = 0; row < sequence.count; ++row) {
        const auto t = static_cast<Eigen::Index>(sequence.first + row);
        std::copy_n(q.data() + t * q.cols() + static_cast<Eigen::Index>(h * width), parts.nope, query.data());
        std::copy_n(q_rope.data() + t * q_rope.cols() + static_cast<Eigen::Index>(h * parts.rope), parts.rope,
                    query.data() + parts.nope);
        Attention<S> attention;
        attention.queries = query.data();
        attention.query_stride = attention.width = attention.key_stride = width;
        attention.heads = 1;
        attention.keys = k.data();
        attention.values = v.data();
        attention.value_stride = attention.value_width = parts.value;
        attention.selected = visible.of(sequence, row);
        attention.scale = parts.scale;
        attention.sinks = parts.sinks_of(h, 1);
        attention.rounding = parts.layer.rounding.attention_rounding();
        probabilities.resize(attention.selected.size());
        attend(attention, out.data() + t * out.cols() + static_cast<Eigen::Index>(h * parts.value), parts.value,
               keep_probabilities ? probabilities.data() : nullptr);
        if (keep_probabilities) {
          keep(frame.attn_probs, sequence, s, h, row, attention.selected, probabilities.data());
        }
      }
    }
  });
}

}  // namespace

template <class S>
Rows<S> compute_attention(Frame<S>& frame, bool keep_probabilities) {
  const Parts<S> parts(frame);
  frame.attn_probs.clear();
  for (const auto& sequence : frame.sequences) {
    if (!keep_probabilities) break;
    frame.attn_probs.push_back(Rows<S>::Zero(static_cast<Eigen::Index>(parts.heads * sequence.count),
                                             static_cast<Eigen::Index>(sequence.keys())));
  }
  Rows<S> out =
      Rows<S>::Zero(static_cast<Eigen::Index>(frame.tokens()), static_cast<Eigen::Index>(parts.heads * parts.value));
  if (parts.layer.rounding.attention == AttentionForm::absorbed) {
    absorbed_attention(frame, parts, keep_probabilities, out);
  } else {
    expanded_attention(frame, parts, keep_probabilities, out);
  }
  round_all(parts.format_at(RoundingPoint::attention_output), out);
  return out;
}

template <class S>
Rows<S> compute_attention_from_probabilities(const Frame<S>& frame) {
  const Parts<S> parts(frame);
  const std::size_t stride = parts.rank + parts.rope;
  Rows<S> out(static_cast<Eigen::Index>(frame.tokens()), static_cast<Eigen::Index>(parts.heads * parts.value));
  for (std::size_t s = 0; s < frame.sequences.size(); ++s) {
    const auto& sequence = frame.sequences[s];
    if (sequence.count == 0) continue;
    const RowsView<S> cached(sequence.cache->latents.data(), static_cast<Eigen::Index>(sequence.keys()),
                             static_cast<Eigen::Index>(parts.rank),
                             Eigen::OuterStride<>(static_cast<Eigen::Index>(stride)));
    const Rows<S> transposed = cached.transpose();  // [Lkv, S]
    Rows<S> latents(static_cast<Eigen::Index>(sequence.count), static_cast<Eigen::Index>(parts.heads * parts.rank));
    const auto& probabilities = frame.attn_probs[s];
    parts.layer.pool->for_each(parts.heads, sequence.count * sequence.keys() * parts.rank, [&](std::size_t h) {
      product_into(probabilities.data() + h * sequence.count * sequence.keys(), sequence.keys(), sequence.count,
                   transposed.data(), sequence.keys(), parts.rank, sequence.keys(), latents.data() + h * parts.rank,
                   parts.heads * parts.rank);
    });
    values_from_latents(parts, latents, sequence.first, out);
  }
  round_all(parts.format_at(RoundingPoint::attention_output), out);
  return out;
}

template Rows<float> compute_attention(Frame<float>&, bool);
template Rows<double> compute_attention(Frame<double>&, bool);
template Rows<float> compute_attention_from_probabilities(const Frame<float>&);
template Rows<double> compute_attention_from_probabilities(const Frame<double>&);

}  // namespace mtpcheck
