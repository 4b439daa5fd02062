#include "reference/torch/attention.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/tensor/error.h"
#include "reference/torch/operators.h"
#include "reference/torch/stored.h"

namespace mtpcheck::torch_head {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kIndexGroup = 128;           // the indexer's quantisation group
constexpr std::int64_t kScoresAtOnce = 1LL << 26U;  // logits of one block of queries

at::Tensor appended(const at::Tensor& cached, const at::Tensor& rows) {
  return cached.defined() ? at::cat({cached, rows}, 0) : rows;
}

at::Tensor shortened(const at::Tensor& cached, std::int64_t length) {
  return cached.defined() ? cached.narrow(0, 0, length) : cached;
}

/// The indexer's side of the rows of one call.
struct IndexRows {
  at::Tensor q;         // [T, h, d]
  at::Tensor q_scales;  // [T, h, d/128] under indexer_fp8
  at::Tensor k;         // [T, d]
  at::Tensor k_scales;  // [T, d/128] under indexer_fp8
  at::Tensor weights;   // [T, h] wide, both scales included
};

IndexRows index_rows(const HeadConfig& config, const Conventions& conventions, const IndexerWeights& weights,
                     const at::Tensor& x, const at::Tensor& q_c, const Rotation& turn, const Recorder& record) {
  const auto heads = signed_size(config.index_n_heads);
  const auto dim = signed_size(config.index_head_dim);
  const auto type = wide(x.scalar_type());
  IndexRows rows;
  rows.q = rotate(linear(q_c, weights.wq_b).view({-1, heads, dim}), turn, conventions.indexer_rope);
  const auto k = layer_norm(linear(x, weights.wk), weights.k_norm_weight, weights.k_norm_bias,
                            conventions.k_norm_eps.value_or(config.rms_norm_eps));
  rows.k = rotate(k.unsqueeze(1), turn, conventions.indexer_rope).squeeze(1);
  const double scale = 1.0 / std::sqrt(static_cast<double>(dim * heads));
  rows.weights = at::linear(x.to(type), decoded(weights.weights_proj, type)) * scale;
  if (conventions.indexer_fp8) {
    const auto group = dim % kIndexGroup == 0 ? kIndexGroup : dim;
    auto q8 = quantised(rows.q, group);
    auto k8 = quantised(rows.k, group);
    rows.q = q8.values.to(x.scalar_type());
    rows.k = k8.values.to(x.scalar_type());
    rows.q_scales = q8.scales;
    rows.k_scales = k8.scales;
  }
  record(Stage::indexer_q, rows.q);
  record(Stage::indexer_k, rows.k);
  record(Stage::indexer_weights, rows.weights);
  return rows;
}

/// Σ_h w_h relu(q_h · k) for the queries [first, first + count) of the call. [count, S] wide
at::Tensor index_scores(const IndexRows& rows, std::int64_t first, std::int64_t count, const SequenceCache& cache) {
  const auto type = rows.weights.scalar_type();
  auto q = rows.q.narrow(0, first, count).to(type);
  auto k = cache.index_k.to(type);
  if (rows.q_scales.defined()) {
    const auto groups = rows.q_scales.size(-1);
    q = (q.unflatten(-1, {groups, -1}) * rows.q_scales.narrow(0, first, count).unsqueeze(-1)).flatten(-2);
    k = (k.unflatten(-1, {groups, -1}) * cache.index_scales.unsqueeze(-1)).flatten(-2);
  }
  const auto products = at::matmul(q, k.t()).relu();  // [count, h, S]
  return at::matmul(rows.weights.narrow(0, first, count).unsqueeze(1), products).squeeze(1);
}

/// Which keys a block of queries may see at all: key j for the query that is itself row `at` when j ≤ at.
at::Tensor causal_mask(std::int64_t at_row, std::int64_t count, std::int64_t keys) {
  return at::arange(keys).unsqueeze(0) <= at::arange(at_row, at_row + count).unsqueeze(1);
}

/// Selections that are given: [count, width] key indices, descending, −1 as padding.
at::Tensor forced_keys(const Selections& forced, std::int64_t first, std::int64_t count, std::int64_t width,
                       std::int64_t keys) {
  for (std::int64_t row = 0; row < count; ++row) {
    width = std::max(width, signed_size(forced.topk_indices[static_cast<std::size_t>(first + row)].size()));
  }
  auto result = at::full({count, width}, -1, at::TensorOptions(at::kLong));
  for (std::int64_t row = 0; row < count; ++row) {
    const auto& chosen = forced.topk_indices[static_cast<std::size_t>(first + row)];
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      if (chosen[i] >= keys) {
        throw input_error(fmt::format("forced topk_indices of row {}: key {} of {}", first + row, chosen[i], keys));
      }
      result.index_put_({at::scalar_tensor(row, at::kLong), at::scalar_tensor(signed_size(i), at::kLong)},
                        at::scalar_tensor(std::int64_t{chosen[i]}, at::kLong));
    }
  }
  return std::get<0>(result.sort(-1, /*descending=*/true));
}

/// The block's own choice: the k best causal keys, descending, −1 as padding.
at::Tensor chosen_keys(const at::Tensor& scores, const at::Tensor& causal, std::int64_t count) {
  const auto best = largest(scores.masked_fill(causal.logical_not(), -kInfinity), count);
  const auto seen = at::where(causal.gather(1, best), best, -1);
  return std::get<0>(seen.sort(-1, /*descending=*/true));
}

/// True where a key is in the selection; the padding falls into a column that is cut off.
at::Tensor selection_mask(const at::Tensor& selected, std::int64_t keys) {
  const auto mask = at::zeros({selected.size(0), keys + 1}, at::TensorOptions(at::kBool));
  return mask.scatter(1, selected + 1, true).narrow(1, 1, keys);
}

/// softmax(q kᵀ · scale) over the visible keys and the sink, without the sink's column. [N, count, S] wide
at::Tensor probabilities(const at::Tensor& q, const at::Tensor& k, const at::Tensor& visible, const Vector& sink,
                         double scale) {
  auto logits = at::matmul(q, k.transpose(-1, -2)) * scale;
  logits = logits.masked_fill(visible.logical_not().unsqueeze(0), -kInfinity);
  if (sink.empty()) return logits.softmax(-1);
  const auto column = vector_of(sink, q.scalar_type()).view({-1, 1, 1}).expand({-1, q.size(1), 1});
  return at::cat({logits, column}, -1).softmax(-1).narrow(-1, 0, k.size(1));
}

/// What the rows of one call bring to the attention of their sequences.
struct AttentionRows {
  at::Tensor q_nope;  // [T, N, n]
  at::Tensor q_pe;    // [T, N, r]
  at::Tensor kv_c;    // [T, Lkv]
  at::Tensor k_pe;    // [T, r]
};

}  // namespace

void SequenceCache::truncate(std::int64_t length) {
  latent = shortened(latent, length);
  k_pe = shortened(k_pe, length);
  index_k = shortened(index_k, length);
  index_scales = shortened(index_scales, length);
}

namespace {

/// One sequence's rows [first, first + count) of the call: attention's output [count, N·v].
at::Tensor attend(const HeadConfig& config, const Conventions& conventions, const LayerWeights& weights,
                  const AttentionRows& rows, const IndexRows* index, std::int64_t first, std::int64_t count,
                  std::size_t sequence, const Selections* forced, SequenceCache& cache, const Recorder& record) {
  const auto before = cache.length();
  cache.latent = appended(cache.latent, rows.kv_c.narrow(0, first, count));
  cache.k_pe = appended(cache.k_pe, rows.k_pe.narrow(0, first, count));
  if (index != nullptr) {
    cache.index_k = appended(cache.index_k, index->k.narrow(0, first, count));
    if (index->k_scales.defined()) {
      cache.index_scales = appended(cache.index_scales, index->k_scales.narrow(0, first, count));
    }
  }
  const auto keys = before + count;
  const auto heads = signed_size(config.num_attention_heads);
  const auto nope = signed_size(config.qk_nope_head_dim);
  const auto type = rows.q_nope.scalar_type();
  const auto up = linear(cache.latent, weights.kv_b_proj).view({keys, heads, -1}).transpose(0, 1);  // [N, S, n+v]
  const auto k_pe = cache.k_pe.unsqueeze(0).expand({heads, -1, -1});
  const auto k = at::cat({up.narrow(-1, 0, nope), k_pe}, -1).to(wide(type));  // [N, S, n+r]
  const auto v = up.narrow(-1, nope, up.size(-1) - nope);                     // [N, S, v]

  std::vector<at::Tensor> outs;
  std::vector<at::Tensor> all_scores;
  std::vector<at::Tensor> all_chosen;
  std::vector<at::Tensor> all_probs;
  const auto block = std::clamp<std::int64_t>(kScoresAtOnce / (heads * keys), 1, count);
  for (std::int64_t at_row = 0; at_row < count; at_row += block) {
    const auto size = std::min(block, count - at_row);
    auto visible = causal_mask(before + at_row, size, keys);
    if (index != nullptr) {
      const auto width = std::min(signed_size(config.index_topk), keys);
      const bool given = forced != nullptr && !forced->topk_indices.empty();
      at::Tensor chosen;
      if (!given || record.wants(Stage::indexer_scores)) {
        const auto scores = index_scores(*index, first + at_row, size, cache);
        if (!given) chosen = chosen_keys(scores, visible, width);
        if (record.wants(Stage::indexer_scores)) {
          all_scores.push_back(scores.masked_fill(visible.logical_not(), -kInfinity));
        }
      }
      if (given) chosen = forced_keys(*forced, first + at_row, size, width, keys);
      visible = selection_mask(chosen, keys).logical_and(visible);
      all_chosen.push_back(chosen);
    }
    const auto q = at::cat({rows.q_nope, rows.q_pe}, -1).narrow(0, first + at_row, size).transpose(0, 1);
    const auto probs =
        probabilities(q.to(wide(type)), k, visible, weights.sink, softmax_scale(config, conventions)).to(type);
    outs.push_back(at::matmul(probs, v).transpose(0, 1).reshape({size, -1}));
    if (record.wants(Stage::attn_probs)) all_probs.push_back(probs);
  }
  if (!all_scores.empty()) record.of_sequence(Stage::indexer_scores, sequence, at::cat(all_scores, 0));
  if (!all_chosen.empty()) {
    record.of_sequence(Stage::topk_indices, sequence, at::cat(all_chosen, 0).to(at::kInt));
  }
  if (!all_probs.empty()) record.of_sequence(Stage::attn_probs, sequence, at::cat(all_probs, 1));
  return at::cat(outs, 0);
}

/// attn_out · sigmoid(gate), the gate repeated over a head's channels where it is one a head.
at::Tensor gated(const HeadConfig& config, const LayerWeights& weights, const at::Tensor& x, const at::Tensor& out,
                 const Recorder& record) {
  if (weights.linear_gate.empty()) return out;
  auto gate = linear(x, weights.linear_gate);
  if (gate.size(-1) != out.size(-1)) gate = gate.repeat_interleave(signed_size(config.v_head_dim), -1);
  record(Stage::gate, gate);
  const auto type = wide(x.scalar_type());
  return (out.to(type) * gate.to(type).sigmoid()).to(x.scalar_type());
}

}  // namespace

at::Tensor attention(const HeadConfig& config, const Conventions& conventions, const LayerWeights& weights,
                     const HeadInput& input, const Selections* forced, const at::Tensor& x,
                     std::vector<SequenceCache>& caches, const Recorder& record) {
  const double latent_eps = conventions.latent_norm_eps.value_or(config.rms_norm_eps);
  const auto heads = signed_size(config.num_attention_heads);
  const auto nope = signed_size(config.qk_nope_head_dim);
  const auto rope = signed_size(config.qk_rope_head_dim);
  const auto rank = signed_size(config.kv_lora_rank);
  const auto turn = rotation(config, at::tensor(input.positions, at::kLong), wide(x.scalar_type()));

  const auto q_a = linear(x, weights.q_a_proj);
  const auto q_c = rms_norm(q_a, weights.q_a_layernorm, latent_eps);
  const auto q = linear(q_c, weights.q_b_proj).view({-1, heads, nope + rope});
  const auto kv_a = linear(x, weights.kv_a_proj);
  AttentionRows rows;
  rows.q_nope = q.narrow(-1, 0, nope);
  rows.q_pe = rotate(q.narrow(-1, nope, rope), turn, conventions.rope);
  rows.kv_c = rms_norm(kv_a.narrow(-1, 0, rank), weights.kv_a_layernorm, latent_eps);
  rows.k_pe = rotate(kv_a.narrow(-1, rank, rope).unsqueeze(1), turn, conventions.rope).squeeze(1);
  record(Stage::q_a, q_a);
  record(Stage::q_c, q_c);
  record(Stage::q, q);
  record(Stage::q_rope, rows.q_pe);
  record(Stage::kv_a, kv_a);
  record(Stage::kv_c, rows.kv_c);
  record(Stage::k_pe, rows.k_pe);

  IndexRows index;
  if (weights.indexer) index = index_rows(config, conventions, *weights.indexer, x, q_c, turn, record);
  std::vector<at::Tensor> outs;
  for (std::size_t sequence = 0; sequence < input.sequences(); ++sequence) {
    const auto first = input.cu_seqlens[sequence];
    const auto count = input.cu_seqlens[sequence + 1] - first;
    if (count == 0) continue;
    outs.push_back(attend(config, conventions, weights, rows, weights.indexer ? &index : nullptr, first, count,
                          sequence, forced, caches[sequence], record));
  }
  const auto out = at::cat(outs, 0);
  record(Stage::attn_out, out);
  const auto passed = gated(config, weights, x, out, record);
  record(Stage::gated, passed);
  return linear(passed, weights.o_proj);
}

}  // namespace mtpcheck::torch_head
