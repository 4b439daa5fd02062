// The reference in float32 against LibTorch eager in float32 arithmetic: one prefill of T rows through a whole head.
// Weights are held as BF16 or as FP8 blocks; LibTorch converts them in each call, as an eager engine without kernels of
// its own has to. Both use MTPCHECK_THREADS threads (all, when not set).
//   MTPCHECK_THREADS=2 build/bin/reference_bench --benchmark_filter='hidden_1024'
//   MTPCHECK_THREADS=2 build/bin/reference_bench --benchmark_filter='true_shapes'      needs 13 GB
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "reference/head/reference_head.h"
#include "reference/parallel/thread_pool.h"
#include "reference/torch/torch_head.h"

namespace mtpcheck {
namespace {

/// Hy4-preview's layer with 32 of its 256 experts, or a smaller one of the same proportions.
HeadConfig config_of(bool true_shapes) {
  HeadConfig c;
  c.num_hidden_layers = 78;
  c.hidden_size = true_shapes ? 6144 : 1024;
  c.vocab_size = true_shapes ? 120832 : 20480;
  c.num_attention_heads = true_shapes ? 64 : 16;
  c.q_lora_rank = true_shapes ? 2048 : 512;
  c.kv_lora_rank = 512;
  c.qk_nope_head_dim = true_shapes ? 192 : 64;
  c.qk_rope_head_dim = 64;
  c.v_head_dim = true_shapes ? 256 : 64;
  c.sparse_attention = true;
  c.index_n_heads = true_shapes ? 32 : 8;
  c.index_head_dim = 128;
  c.index_topk = 2048;
  c.n_routed_experts = 32;
  c.num_experts_per_tok = 8;
  c.moe_intermediate_size = true_shapes ? 2048 : 512;
  c.max_position_embeddings = 1 << 20;
  c.rope.theta = 1e7;
  return c;
}

/// One buffer of random weights into which every matrix of the head points: what is measured is read, not what it says.
class Weights {
 public:
  Weights(const HeadConfig& c, Dtype dtype) : dtype_(dtype) {
    std::mt19937_64 random(1);
    const std::size_t elements = c.vocab_size * c.hidden_size;
    bf16_.resize(elements);
    // Exponents near that of 1/64, so that no product is subnormal.
    for (auto& value : bf16_) value = static_cast<std::uint16_t>(0x3C00U | (random() & 0x80FFU));
    fp8_.resize(elements);
    for (auto& code : fp8_) code = static_cast<std::uint8_t>(0x30U | (random() & 0x87U));
    scales_.assign((c.vocab_size + 127) / 128 * ((c.hidden_size + 127) / 128), 1.0F / 64);
    experts_.resize(c.n_routed_experts);
    for (auto& expert : experts_) expert = (dtype == Dtype::bf16 ? bf16_bytes : fp8_bytes)(*this, c, random);
  }

  Matrix dense(std::size_t rows, std::size_t cols) const { return matrix(rows, cols, bf16_.data(), Dtype::bf16); }
  Matrix projection(std::size_t rows, std::size_t cols) const {
    return dtype_ == Dtype::bf16 ? dense(rows, cols) : quantised(rows, cols, fp8_.data());
  }
  MlpWeights mlp(std::size_t width, std::size_t hidden) const {
    return {projection(width, hidden), projection(width, hidden), projection(hidden, width)};
  }
  MlpWeights expert(std::size_t e, std::size_t width, std::size_t hidden) const {
    const std::size_t bytes = width * hidden * bits_of(dtype_) / 8;
    const auto part = [&](std::size_t i, std::size_t rows, std::size_t cols) {
      const auto* const data = experts_[e].data() + i * bytes;
      return dtype_ == Dtype::bf16 ? matrix(rows, cols, data, Dtype::bf16) : quantised(rows, cols, data);
    };
    return {part(0, width, hidden), part(1, width, hidden), part(2, hidden, width)};
  }

 private:
  static std::vector<std::uint8_t> bf16_bytes(const Weights& w, const HeadConfig& c, std::mt19937_64& random) {
    std::vector<std::uint8_t> bytes(3 * c.moe_intermediate_size * c.hidden_size * 2);
    for (std::size_t i = 0; i < bytes.size(); i += 2) {
      const auto value = w.bf16_[(i / 2) % w.bf16_.size()] ^ static_cast<std::uint16_t>(random() & 0x7F);
      bytes[i] = static_cast<std::uint8_t>(value & 0xFF);
      bytes[i + 1] = static_cast<std::uint8_t>(value >> 8);
    }
    return bytes;
  }
  static std::vector<std::uint8_t> fp8_bytes(const Weights& w, const HeadConfig& c, std::mt19937_64& /*random*/) {
    std::vector<std::uint8_t> bytes(3 * c.moe_intermediate_size * c.hidden_size);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = w.fp8_[i % w.fp8_.size()];
    return bytes;
  }
  static Matrix matrix(std::size_t rows, std::size_t cols, const void* data, Dtype dtype) {
    Matrix out;
    out.rows = rows;
    out.cols = cols;
    out.dtype = dtype;
    out.data = static_cast<const std::byte*>(data);
    return out;
  }
  Matrix quantised(std::size_t rows, std::size_t cols, const void* data) const {
    Matrix out = matrix(rows, cols, data, Dtype::f8_e4m3);
    out.scales = {Dtype::f32, reinterpret_cast<const std::byte*>(scales_.data()), 128, 128, (cols + 127) / 128, 0};
    return out;
  }

  Dtype dtype_;
  std::vector<std::uint16_t> bf16_;
  std::vector<std::uint8_t> fp8_;
  std::vector<float> scales_;
  std::vector<std::vector<std::uint8_t>> experts_;
};

HeadWeights weights_of(const HeadConfig& c, const std::shared_ptr<const Weights>& from) {
  HeadWeights out;
  out.storage = from;
  out.embed_tokens = from->dense(c.vocab_size, c.hidden_size);
  LayerWeights& w = out.layers.emplace_back();
  const std::size_t heads = c.num_attention_heads;
  w.enorm = w.hnorm = w.final_layernorm = w.input_layernorm = w.post_attention_layernorm = Vector(c.hidden_size, 1.0);
  w.q_a_layernorm = Vector(c.q_lora_rank, 1.0);
  w.kv_a_layernorm = Vector(c.kv_lora_rank, 1.0);
  w.eh_proj = from->dense(c.hidden_size, 2 * c.hidden_size);
  w.q_a_proj = from->projection(c.q_lora_rank, c.hidden_size);
  w.q_b_proj = from->projection(heads * (c.qk_nope_head_dim + c.qk_rope_head_dim), c.q_lora_rank);
  w.kv_a_proj = from->projection(c.kv_lora_rank + c.qk_rope_head_dim, c.hidden_size);
  w.kv_b_proj = from->projection(heads * (c.qk_nope_head_dim + c.v_head_dim), c.kv_lora_rank);
  w.o_proj = from->projection(c.hidden_size, heads * c.v_head_dim);
  w.linear_gate = from->projection(heads * c.v_head_dim, c.hidden_size);
  w.sink = Vector(heads, 0.0);
  w.indexer = IndexerWeights{from->projection(c.index_n_heads * c.index_head_dim, c.q_lora_rank),
                             from->dense(c.index_head_dim, c.hidden_size), from->dense(c.index_n_heads, c.hidden_size),
                             Vector(c.index_head_dim, 1.0), Vector(c.index_head_dim, 0.0)};
  MoeWeights& moe = w.moe.emplace();
  moe.router = from->dense(c.n_routed_experts, c.hidden_size);
  moe.expert_bias = Vector(c.n_routed_experts, 0.0);
  for (std::size_t e = 0; e < c.n_routed_experts; ++e) {
    moe.experts.push_back(from->expert(e, c.moe_intermediate_size, c.hidden_size));
  }
  moe.shared = from->mlp(c.moe_intermediate_size, c.hidden_size);
  w.lm_head = from->dense(c.vocab_size, c.hidden_size);
  return out;
}

HeadInput rows(const HeadConfig& c, std::size_t count) {
  HeadInput input;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> hidden(count * c.hidden_size);
  for (auto& value : hidden) value = normal(random);
  for (std::size_t i = 0; i < count; ++i) {
    input.input_ids.push_back(static_cast<std::int64_t>(random() % c.vocab_size));
    input.positions.push_back(static_cast<std::int64_t>(i));
  }
  input.hidden_states = tensor_of<float>({count, c.hidden_size}, hidden);
  input.cu_seqlens = {0, static_cast<std::int64_t>(count)};
  return input;
}

class NoSink final : public StageSink {
 public:
  bool wants(Stage stage) const override { return stage == Stage::logits; }
  void record(const StageKey& /*key*/, const TensorView& value) override {
    benchmark::DoNotOptimize(value.bytes.data());
  }
};

void prefill(benchmark::State& state, bool true_shapes, Dtype dtype, bool torch) {
  // The weights of the last run are kept: filling them takes longer than measuring.
  static std::shared_ptr<const Weights> kept;
  static std::pair<bool, Dtype> kept_for;
  const HeadConfig config = config_of(true_shapes);
  if (!kept || kept_for != std::pair(true_shapes, dtype)) {
    kept.reset();
    kept = std::make_shared<const Weights>(config, dtype);
    kept_for = {true_shapes, dtype};
  }
  const auto input = rows(config, static_cast<std::size_t>(state.range(0)));
  const auto weights = weights_of(config, kept);
  std::unique_ptr<Head> head;
  if (torch) {
    head = make_torch_head(config, weights, {}, Dtype::f32, static_cast<int>(shared_pool().threads()));
  } else {
    head = make_reference_head(config, weights, {});
  }
  NoSink sink;
  for (auto _ : state) {
    head->reset();
    head->forward(input, {}, sink);
  }
}

void tokens(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(1)->Arg(16)->Arg(64)->Arg(256)->UseRealTime()->MeasureProcessCPUTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(prefill, hidden_1024_bf16_reference, false, Dtype::bf16, false)->Apply(tokens);
BENCHMARK_CAPTURE(prefill, hidden_1024_bf16_torch, false, Dtype::bf16, true)->Apply(tokens);
BENCHMARK_CAPTURE(prefill, hidden_1024_fp8_reference, false, Dtype::f8_e4m3, false)->Apply(tokens);
BENCHMARK_CAPTURE(prefill, hidden_1024_fp8_torch, false, Dtype::f8_e4m3, true)->Apply(tokens);
BENCHMARK_CAPTURE(prefill, true_shapes_bf16_reference, true, Dtype::bf16, false)->Apply(tokens);
BENCHMARK_CAPTURE(prefill, true_shapes_bf16_torch, true, Dtype::bf16, true)->Apply(tokens);
BENCHMARK_CAPTURE(prefill, true_shapes_fp8_reference, true, Dtype::f8_e4m3, false)->Apply(tokens);
BENCHMARK_CAPTURE(prefill, true_shapes_fp8_torch, true, Dtype::f8_e4m3, true)->Apply(tokens);

}  // namespace
}  // namespace mtpcheck
