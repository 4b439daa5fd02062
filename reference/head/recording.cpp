#include "reference/head/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "reference/tensor/error.h"
#include "reference/tensor/float_formats.h"

namespace mtpcheck {
namespace {

StageKey key_of(Stage stage, std::size_t step, std::size_t sequence, std::size_t sequences) {
  StageKey key{stage, step, std::nullopt};
  if (info(stage).per_sequence && sequences > 1) key.sequence = sequence;
  return key;
}

template <class S>
std::span<const std::byte> bytes_of(const S* values, std::size_t count) {
  return std::as_bytes(std::span<const S>(values, count));
}

void record_integers(const StageKey& key, Shape shape, std::span<const std::int32_t> values, StageSink& sink) {
  sink.record(key, {to_string(key), Dtype::i32, std::move(shape), std::as_bytes(values), {}, 0});
}

template <class S>
void record_values(const StageKey& key, Shape shape, const S* values, Dtype dtype, StageSink& sink) {
  const std::size_t count = elements_of(shape);
  if (dtype != Dtype::bf16 && dtype != Dtype::f16) {
    sink.record(key, {to_string(key), dtype_of<S>(), std::move(shape), bytes_of(values, count), {}, 0});
    return;
  }
  std::vector<std::uint16_t> narrow(count);
  const auto convert = dtype == Dtype::bf16 ? f32_to_bf16 : f32_to_f16;
  for (std::size_t i = 0; i < count; ++i) narrow[i] = convert(static_cast<float>(values[i]));
  sink.record(key, {to_string(key), dtype, std::move(shape), bytes_of(narrow.data(), count), {}, 0});
}

/// Ascending keys as the vocabulary has them: descending, padded with −1 to the width of the selection.
template <class S>
std::vector<std::int32_t> descending_rows(const Frame<S>& frame, const SequenceRows<S>& sequence, std::size_t width) {
  std::vector<std::int32_t> out(sequence.count * width, -1);
  for (std::size_t row = 0; row < sequence.count; ++row) {
    const auto& keys = frame.topk_indices[sequence.first + row];
    const std::size_t count = std::min(width, keys.size());
    std::copy_n(keys.rbegin(), count, out.begin() + static_cast<std::ptrdiff_t>(row * width));
  }
  return out;
}

template <class S>
void record_sequence(const Frame<S>& frame, Stage stage, std::size_t s, Precision precision, std::size_t step,
                     StageSink& sink) {
  const auto& sequence = frame.sequences[s];
  const auto key = key_of(stage, step, s, frame.sequences.size());
  const Shape shape = shape_of_stage(stage, frame.layer.config, sequence.count, sequence.keys());
  if (stage == Stage::topk_indices) {
    record_integers(key, shape, descending_rows(frame, sequence, shape[1]), sink);
  } else if (stage == Stage::indexer_scores && !frame.indexer_scores.empty()) {
    record_values(key, shape, frame.indexer_scores[s].data(), Dtype::f32, sink);
  } else if (stage == Stage::attn_probs && !frame.attn_probs.empty()) {
    const bool narrow = frame.layer.rounding.at(RoundingPoint::probabilities);
    record_values(key, shape, frame.attn_probs[s].data(), narrow ? dtype_of(precision) : Dtype::f32, sink);
  }
}

template <class S>
Rows<S> rows_from(const TensorView& tensor, const Shape& shape, const StageKey& key, std::size_t rows) {
  if (elements_of(tensor.shape) != elements_of(shape)) {
    throw input_error(fmt::format("{}: stage {} is {}, but {} was expected", tensor.file, to_string(key),
                                  to_string(tensor.shape), to_string(shape)));
  }
  const std::size_t columns = rows == 0 ? 0 : elements_of(shape) / rows;
  Rows<S> out(static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(columns));
  if constexpr (std::is_same_v<S, float>) {
    const auto values = to_f32(tensor);
    std::copy(values.begin(), values.end(), out.data());
  } else {
    const auto values = to_f64(tensor);
    std::copy(values.begin(), values.end(), out.data());
  }
  return out;
}

std::vector<std::int32_t> choice_from(const std::vector<std::int64_t>& values, std::size_t first, std::size_t width,
                                      std::size_t limit, const StageKey& key) {
  std::vector<std::int32_t> out;
  for (std::size_t k = 0; k < width; ++k) {
    const std::int64_t index = values[first + k];
    if (index < 0) continue;
    if (static_cast<std::size_t>(index) >= limit) {
      throw input_error(fmt::format("stage {} chooses {}, but there are only {}", to_string(key), index, limit));
    }
    out.push_back(static_cast<std::int32_t>(index));
  }
  std::sort(out.begin(), out.end());
  return out;
}

template <class S>
bool restore_sequence(Frame<S>& frame, Stage stage, std::size_t s, std::size_t step, const RecordedStages& recorded) {
  const auto& sequence = frame.sequences[s];
  const auto key = key_of(stage, step, s, frame.sequences.size());
  const auto tensor = recorded(key);
  if (!tensor) return false;
  const auto& c = frame.layer.config;
  if (stage == Stage::topk_indices) {
    const auto values = to_i64(*tensor);
    if (sequence.count == 0) return true;
    if (values.size() % sequence.count != 0) {
      throw input_error(
          fmt::format("stage {} has {} elements for {} rows", to_string(key), values.size(), sequence.count));
    }
    const std::size_t width = values.size() / sequence.count;
    for (std::size_t row = 0; row < sequence.count; ++row) {
      frame.topk_indices[sequence.first + row] = choice_from(values, row * width, width, sequence.keys(), key);
    }
    return true;
  }
  const Shape shape = shape_of_stage(stage, c, sequence.count, sequence.keys());
  if (stage == Stage::indexer_scores) {
    frame.indexer_scores.push_back(rows_from<S>(*tensor, shape, key, sequence.count));
  } else {
    frame.attn_probs.push_back(rows_from<S>(*tensor, shape, key, c.num_attention_heads * sequence.count));
  }
  return true;
}

}  // namespace

Shape shape_of_stage(Stage stage, const HeadConfig& c, std::size_t tokens, std::size_t keys) {
  const std::size_t n = c.num_attention_heads;
  switch (stage) {
    case Stage::q_a:
    case Stage::q_c:
      return {tokens, c.q_lora_rank};
    case Stage::q:
      return {tokens, n, c.qk_nope_head_dim + c.qk_rope_head_dim};
    case Stage::q_rope:
      return {tokens, n, c.qk_rope_head_dim};
    case Stage::kv_a:
      return {tokens, c.kv_lora_rank + c.qk_rope_head_dim};
    case Stage::kv_c:
      return {tokens, c.kv_lora_rank};
    case Stage::k_pe:
      return {tokens, c.qk_rope_head_dim};
    case Stage::indexer_q:
      return {tokens, c.index_n_heads, c.index_head_dim};
    case Stage::indexer_k:
      return {tokens, c.index_head_dim};
    case Stage::indexer_weights:
      return {tokens, c.index_n_heads};
    case Stage::indexer_scores:
      return {tokens, keys};
    case Stage::topk_indices:
      return {tokens, std::min(c.index_topk, keys)};
    case Stage::attn_probs:
      return {n, tokens, keys};
    case Stage::attn_out:
    case Stage::gate:
    case Stage::gated:
      return {tokens, n * c.v_head_dim};
    case Stage::router_logits:
      return {tokens, c.n_routed_experts};
    case Stage::topk_experts:
    case Stage::topk_weights:
      return {tokens, c.num_experts_per_tok};
    case Stage::logits:
      return {tokens, c.vocab_size};
    default:
      return {tokens, c.hidden_size};
  }
}

template <class S>
void record(const Frame<S>& frame, Stage stage, Precision precision, std::size_t step, StageSink& sink) {
  if (!sink.wants(stage)) return;
  if (info(stage).per_sequence) {
    for (std::size_t s = 0; s < frame.sequences.size(); ++s) record_sequence(frame, stage, s, precision, step, sink);
    return;
  }
  const StageKey key{stage, step, std::nullopt};
  const Shape shape = shape_of_stage(stage, frame.layer.config, frame.tokens(), 0);
  if (stage == Stage::topk_experts) {
    std::vector<std::int32_t> ids;
    for (const auto& row : frame.topk_experts) ids.insert(ids.end(), row.begin(), row.end());
    return record_integers(key, shape, ids, sink);
  }
  record_values(key, shape, frame.at(stage).data(), rounding_point_of(stage) ? dtype_of(precision) : Dtype::f32, sink);
}

template <class S>
bool restore(Frame<S>& frame, Stage stage, std::size_t step, const RecordedStages& recorded) {
  if (info(stage).per_sequence) {
    if (stage == Stage::indexer_scores) frame.indexer_scores.clear();
    if (stage == Stage::attn_probs) frame.attn_probs.clear();
    if (stage == Stage::topk_indices) frame.topk_indices.assign(frame.tokens(), {});
    for (std::size_t s = 0; s < frame.sequences.size(); ++s) {
      if (!restore_sequence(frame, stage, s, step, recorded)) return false;
    }
    return true;
  }
  const StageKey key{stage, step, std::nullopt};
  const auto tensor = recorded(key);
  if (!tensor) return false;
  const auto& c = frame.layer.config;
  const Shape shape = shape_of_stage(stage, c, frame.tokens(), 0);
  if (stage != Stage::topk_experts) {
    frame.at(stage) = rows_from<S>(*tensor, shape, key, frame.tokens());
    return true;
  }
  const auto values = to_i64(*tensor);
  if (values.size() != elements_of(shape)) {
    throw input_error(
        fmt::format("stage {} is {}, but {} was expected", to_string(key), to_string(tensor->shape), to_string(shape)));
  }
  frame.topk_experts.clear();
  for (std::size_t row = 0; row < frame.tokens(); ++row) {
    frame.topk_experts.push_back(
        choice_from(values, row * c.num_experts_per_tok, c.num_experts_per_tok, c.n_routed_experts, key));
  }
  return true;
}

template void record(const Frame<float>&, Stage, Precision, std::size_t, StageSink&);
template void record(const Frame<double>&, Stage, Precision, std::size_t, StageSink&);
template bool restore(Frame<float>&, Stage, std::size_t, const RecordedStages&);
template bool restore(Frame<double>&, Stage, std::size_t, const RecordedStages&);

}  // namespace mtpcheck
