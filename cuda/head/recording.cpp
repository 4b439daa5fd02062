#include "cuda/head/recording.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "cuda/kernels/attention/sparse_attention.h"
#include "cuda/kernels/indexer/index_layout.h"
#include "cuda/kernels/norm/latent.h"
#include "cuda/kernels/numeric/rows.h"
#include "reference/head/recording.h"
#include "reference/head/stages/stage_inputs.h"
#include "reference/tensor/float_formats.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {
namespace {

/// bf16 as their bits.
using Bits = std::vector<std::uint16_t>;

/// Columns [first, first + count) of `rows` rows that lie `stride` apart.
template <class T>
std::vector<T> columns(std::span<const T> values, std::size_t rows, int stride, int first, int count) {
  std::vector<T> out(rows * count);
  for (std::size_t r = 0; r < rows; ++r) {
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(r * stride + first), count,
                out.begin() + static_cast<std::ptrdiff_t>(r * count));
  }
  return out;
}

class Recorder {
 public:
  Recorder(const FinishedStep& step, const ForwardOptions& options, StageSink& sink)
      : step_(step), options_(options), sink_(sink), shape_(step.settings.shape) {}

  void record(Stage stage) const {
    if (info(stage).per_sequence) {
      for (std::size_t s = 0; s < step_.sequences.size(); ++s) record_sequence(stage, s);
      return;
    }
    const Shape shape = shape_of_stage(stage, step_.config, tokens(), 0);
    const StageKey key{stage, options_.step, std::nullopt};
    if (stage == Stage::topk_experts) return give(key, shape, Dtype::i32, experts());
    if (const Buffer<float>* wide = float32_buffer(stage)) {
      return give(key, shape, Dtype::f32, rows_of(*wide, static_cast<int>(elements_of(shape) / tokens())));
    }
    if (stage == Stage::topk_weights) {
      return give(key, shape, Dtype::f32, step_.activations.expert_weights.download(step_.stream));
    }
    give(key, shape, Dtype::bf16, bf16_stage(stage, static_cast<int>(elements_of(shape) / tokens())));
  }

 private:
  std::size_t tokens() const { return static_cast<std::size_t>(step_.rows.tokens); }
  LatentLayout layout() const { return {shape_.kv_rank, shape_.rope}; }

  template <class T>
  void give(const StageKey& key, Shape shape, Dtype dtype, const std::vector<T>& values) const {
    sink_.record(key, {to_string(key), dtype, std::move(shape), std::as_bytes(std::span(values)), {}, 0});
  }

  Bits download_bits(const Buffer<__nv_bfloat16>& buffer, std::size_t first, std::size_t count) const {
    Bits bits(count);
    download_bytes(step_.stream, bits.data(), buffer.data() + first, count * sizeof(std::uint16_t));
    return bits;
  }
  Bits rows_of(const Buffer<__nv_bfloat16>& buffer, int width) const {
    const int stride = row_stride(width);
    return columns<std::uint16_t>(download_bits(buffer, 0, tokens() * stride), tokens(), stride, 0, width);
  }
  std::vector<float> rows_of(const Buffer<float>& buffer, int width) const {
    const int stride = row_stride(width);
    return columns<float>(buffer.download(step_.stream, 0, tokens() * stride), tokens(), stride, 0, width);
  }

  std::vector<std::int32_t> experts() const { return step_.activations.chosen_experts.download(step_.stream); }

  /// Stages that the step keeps in float32, in rows.
  const Buffer<float>* float32_buffer(Stage stage) const {
    switch (stage) {
      case Stage::indexer_weights:
        return &step_.activations.index_weights;
      case Stage::router_logits:
        return &step_.activations.router_logits;
      case Stage::logits:
        return &step_.activations.logits;
      default:
        return nullptr;
    }
  }

  /// Stages that have a buffer of bf16 rows to themselves.
  const Buffer<__nv_bfloat16>* bf16_buffer(Stage stage) const {
    const Activations& a = step_.activations;
    switch (stage) {
      case Stage::embed_masked:
        return &a.embed_masked;
      case Stage::eh_proj:
        return &a.eh_proj;
      case Stage::input_layernorm:
        return &a.input_layernorm;
      case Stage::q_a:
        return &a.q_a;
      case Stage::q_c:
        return &a.q_c;
      case Stage::q:
        return &a.q;
      case Stage::kv_a:
        return &a.kv_a;
      case Stage::attn_out:
        return &a.attn_out;
      case Stage::gated:
        return step_.settings.gated ? &a.gated : &a.attn_out;
      case Stage::o_proj:
        return &a.o_proj;
      case Stage::residual1:
        return &a.residual1;
      case Stage::post_attention_layernorm:
        return &a.post_attention_layernorm;
      case Stage::experts_out:
        return &a.experts_out;
      case Stage::shared_out:
        return &a.shared_out;
      case Stage::mlp_out:
        return &a.mlp_out;
      case Stage::residual2:
        return &a.residual2;
      case Stage::final_layernorm:
        return &a.final_layernorm;
      default:
        return nullptr;
    }
  }

  Bits bf16_stage(Stage stage, int width) const {
    const Activations& a = step_.activations;
    if (const Buffer<__nv_bfloat16>* rows = bf16_buffer(stage)) return rows_of(*rows, width);
    switch (stage) {
      case Stage::enorm:
      case Stage::hnorm: {
        const Bits both = rows_of(a.concatenated, 2 * shape_.hidden);
        return columns<std::uint16_t>(both, tokens(), 2 * shape_.hidden, stage == Stage::enorm ? 0 : shape_.hidden,
                                      shape_.hidden);
      }
      case Stage::q_rope: {
        const std::size_t queries = tokens() * shape_.heads;
        return columns<std::uint16_t>(download_bits(a.query, 0, queries * layout().stride), queries, layout().stride,
                                      layout().latent, shape_.rope);
      }
      case Stage::kv_c:
        return cached_latents(0, shape_.kv_rank);
      case Stage::k_pe:
        return cached_latents(layout().latent, shape_.rope);
      case Stage::indexer_q:
        return index_queries();
      case Stage::indexer_k:
        return index_keys();
      default:
        return gates();
    }
  }

  /// Columns of the cache rows that this step wrote.
  Bits cached_latents(int first, int count) const {
    Bits out;
    for (std::size_t s = 0; s < step_.sequences.size(); ++s) {
      const SequenceStep& sequence = step_.sequences[s];
      const std::size_t row = static_cast<std::size_t>(step_.cache.base(static_cast<int>(s)) + sequence.cached);
      const std::size_t rows = static_cast<std::size_t>(sequence.count);
      Bits bits(rows * layout().stride);
      download_bytes(step_.stream, bits.data(), step_.cache.latents() + row * layout().stride, bits.size() * 2);
      const Bits part = columns<std::uint16_t>(bits, rows, layout().stride, first, count);
      out.insert(out.end(), part.begin(), part.end());
    }
    return out;
  }

  Bits index_queries() const {
    const Activations& a = step_.activations;
    if (!step_.settings.index_fp8) return rows_of(a.index_q, shape_.index_heads * shape_.index_dims);
    const int stride = index_stride(shape_.index_dims);
    const std::size_t queries = tokens() * shape_.index_heads;
    return columns<std::uint16_t>(download_bits(a.index_queries, 0, queries * stride), queries, stride, 0,
                                  shape_.index_dims);
  }

  /// The codes that the cache holds with FP8, as numbers.
  Bits index_keys() const {
    if (!step_.settings.index_fp8) return rows_of(step_.activations.index_keys, shape_.index_dims);
    const auto stride = static_cast<std::size_t>(index_stride(shape_.index_dims));
    Bits out;
    for (std::size_t s = 0; s < step_.sequences.size(); ++s) {
      const SequenceStep& sequence = step_.sequences[s];
      const std::size_t row = static_cast<std::size_t>(step_.cache.base(static_cast<int>(s)) + sequence.cached);
      std::vector<std::uint8_t> codes(static_cast<std::size_t>(sequence.count) * stride);
      download_bytes(step_.stream, codes.data(), step_.cache.index_codes() + row * stride, codes.size());
      for (std::size_t i = 0; i < codes.size(); ++i) {
        if (i % stride < static_cast<std::size_t>(shape_.index_dims)) out.push_back(f32_to_bf16(e4m3_to_f32(codes[i])));
      }
    }
    return out;
  }

  /// A gate a head is recorded once a value channel, as transformers' module wants it.
  Bits gates() const {
    const Activations& a = step_.activations;
    if (!step_.settings.headwise_gate) return rows_of(a.gate, shape_.heads * shape_.value);
    Bits out;
    for (const std::uint16_t gate : rows_of(a.gate, shape_.heads)) out.insert(out.end(), shape_.value, gate);
    return out;
  }

  void record_sequence(Stage stage, std::size_t s) const {
    const SequenceStep& sequence = step_.sequences[s];
    StageKey key{stage, options_.step, std::nullopt};
    if (step_.sequences.size() > 1) key.sequence = s;
    const Shape shape = shape_of_stage(stage, step_.config, static_cast<std::size_t>(sequence.count),
                                       static_cast<std::size_t>(sequence.keys()));
    const auto first = static_cast<std::size_t>(sequence.first);
    const auto count = static_cast<std::size_t>(sequence.count);
    if (stage == Stage::topk_indices) {
      const auto k = static_cast<std::size_t>(shape_.top_k);
      const auto rows = step_.activations.top_k.download(step_.stream, first * k, count * k);
      give(key, shape, Dtype::i32, columns<std::int32_t>(rows, count, shape_.top_k, 0, static_cast<int>(shape[1])));
    } else if (stage == Stage::indexer_scores) {
      const auto width = static_cast<std::size_t>(step_.rows.max_keys);
      const std::span<const float> rows(step_.scores.data() + first * width, count * width);
      give(key, shape, Dtype::f32, columns<float>(rows, count, step_.rows.max_keys, 0, sequence.keys()));
    } else {
      give(key, shape, Dtype::f32, probabilities(sequence));
    }
  }

  std::vector<float> probabilities(const SequenceStep& sequence) const {
    const std::int64_t first = sequence.first;
    const Buffer<float> out(static_cast<std::size_t>(shape_.heads) * sequence.count * sequence.keys());
    fill_bytes(step_.stream, out.data(), 0, out.size() * sizeof(float));
    const Activations& a = step_.activations;
    const SparseAttention attention{.tokens = sequence.count,
                                    .heads = shape_.heads,
                                    .kv_rank = shape_.kv_rank,
                                    .rope = shape_.rope,
                                    .query = a.query.data() + first * shape_.heads * layout().stride,
                                    .cache = step_.cache.latents(),
                                    .key_bases = step_.rows.key_bases + first,
                                    .key_counts = step_.rows.key_counts + first,
                                    .indices = shape_.sparse() ? a.top_k.data() + first * shape_.top_k : nullptr,
                                    .k = shape_.top_k,
                                    .max_keys = sequence.keys(),
                                    .scale = step_.settings.attention_scale,
                                    .sink = step_.weights.sink.data()};
    attention_probabilities(step_.stream, {.attention = attention, .probabilities = out.data()});
    return out.download(step_.stream);
  }

  const FinishedStep& step_;
  const ForwardOptions& options_;
  StageSink& sink_;
  const HeadShape& shape_;
};

}  // namespace

void record_step(const FinishedStep& step, const ForwardOptions& options, StageSink& sink) {
  const Recorder recorder(step, options, sink);
  for (const Stage stage : stages_of(step.config)) {
    if (sink.wants(stage)) recorder.record(stage);
  }
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
