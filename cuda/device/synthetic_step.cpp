#include "cuda/device/synthetic_step.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "cuda/kernels/indexer/index_layout.h"
#include "cuda/kernels/norm/latent.h"
#include "cuda/kernels/numeric/rows.h"
#include "cuda/kernels/sampling/argmax.h"
#include "reference/tensor/float_formats.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {
namespace {

using Random = std::mt19937;

/// Bytes that are small positive numbers in every format: bf16 0x3C3C and float32 0x3C3C3C3C are 0.0115, E4M3 0x3C
/// is 1.5, E8M0 0x3C would be 2^−67, so that has its own.
constexpr int kByte = 0x3C;
constexpr int kExponent = 0x77;  // 2^−8

template <class T>
Buffer<T> filled(Stream stream, std::size_t size, int byte = kByte) {
  Buffer<T> out(size);
  fill_bytes(stream, out.data(), byte, size * sizeof(T));
  return out;
}

DeviceMatrix matrices(Stream stream, WeightStorage storage, int count, int rows, int cols) {
  const int stride = weight_stride(cols);
  const std::size_t elements = static_cast<std::size_t>(rows) * stride;
  DeviceMatrix out;
  out.view = {.rows = rows, .cols = cols, .stride = stride, .matrix_stride = static_cast<std::int64_t>(elements)};
  if (storage == WeightStorage::bf16) {
    out.data = filled<std::uint8_t>(stream, 2 * elements * count);
  } else {
    const bool blocks = storage == WeightStorage::fp8_block;
    out.view.format = blocks ? WeightFormat::e4m3_f32 : WeightFormat::e4m3_e8m0;
    out.view.block_rows = blocks ? 128 : 1;
    out.view.column_shift = blocks ? 7 : 5;
    out.view.scale_stride = ceil_div(cols, 1 << out.view.column_shift);
    const std::size_t cells = static_cast<std::size_t>(ceil_div(rows, out.view.block_rows)) * out.view.scale_stride;
    out.view.scale_matrix_stride = static_cast<std::int64_t>(cells);
    out.data = filled<std::uint8_t>(stream, elements * count);
    out.scales = blocks ? filled<std::uint8_t>(stream, 4 * cells * count)
                        : filled<std::uint8_t>(stream, cells * count, kExponent);
    out.view.scales = out.scales.data();
  }
  out.view.data = out.data.data();
  return out;
}

DeviceMlp mlp(Stream stream, WeightStorage storage, int count, int inner, int hidden) {
  return {matrices(stream, storage, count, inner, hidden), matrices(stream, storage, count, inner, hidden),
          matrices(stream, storage, count, hidden, inner)};
}

DeviceLayer synthetic_layer(Stream stream, const HeadShape& s, WeightStorage storage) {
  constexpr auto plain = WeightStorage::bf16;
  DeviceLayer out;
  for (Buffer<float>* norm :
       {&out.enorm, &out.hnorm, &out.input_layernorm, &out.post_attention_layernorm, &out.final_layernorm}) {
    *norm = filled<float>(stream, s.hidden);
  }
  out.q_a_layernorm = filled<float>(stream, s.q_rank);
  out.kv_a_layernorm = filled<float>(stream, s.kv_rank);
  out.eh_proj = matrices(stream, plain, 1, s.hidden, 2 * s.hidden);
  out.q_a_proj = matrices(stream, storage, 1, s.q_rank, s.hidden);
  out.kv_a_proj = matrices(stream, storage, 1, s.kv_rank + s.rope, s.hidden);
  out.q_b_proj = matrices(stream, storage, 1, s.heads * s.query_dims(), s.q_rank);
  out.o_proj = matrices(stream, storage, 1, s.hidden, s.heads * s.value);
  out.linear_gate = matrices(stream, storage, 1, s.heads * s.value, s.hidden);
  out.absorb_query = matrices(stream, plain, s.heads, s.kv_rank, s.nope);
  out.expand_value = matrices(stream, storage, s.heads, s.value, s.kv_rank);
  out.sink = filled<float>(stream, s.heads);
  out.index_query = matrices(stream, storage, 1, s.index_heads * s.index_dims, s.q_rank);
  out.index_key = matrices(stream, plain, 1, s.index_dims, s.hidden);
  out.index_weights = matrices(stream, plain, 1, s.index_heads, s.hidden);
  out.index_norm_weight = filled<float>(stream, s.index_dims);
  out.index_norm_bias = filled<float>(stream, s.index_dims);
  WideMatrix router{.rows = s.experts, .cols = s.hidden};
  router.wide = filled<float>(stream, static_cast<std::size_t>(s.experts) * row_stride(s.hidden));
  router.data = router.wide.data();
  out.router = std::move(router);
  out.expert_bias = filled<float>(stream, s.experts);
  out.experts = mlp(stream, storage, s.experts, s.inner, s.hidden);
  out.plain = mlp(stream, storage, 1, s.plain_inner, s.hidden);
  out.lm_head =
      WideMatrix{.narrow = matrices(stream, plain, 1, s.vocabulary, s.hidden), .rows = s.vocabulary, .cols = s.hidden};
  return out;
}

/// Random values repeated with a long period: gigabytes of normal noise would take longer than the measurement.
Buffer<__nv_bfloat16> noise(Stream stream, Random& random, std::size_t size) {
  std::normal_distribution<float> normal;
  std::vector<std::uint16_t> period(1000003);
  for (auto& bits : period) bits = f32_to_bf16(normal(random));
  std::vector<std::uint16_t> bits(size);
  for (std::size_t i = 0; i < size; ++i) bits[i] = period[i % period.size()];
  Buffer<__nv_bfloat16> out(size);
  upload_bytes(stream, out.data(), bits.data(), 2 * size);
  return out;
}

LayerSettings settings_of(const HeadShape& shape) {
  LayerSettings settings;
  settings.shape = shape;
  settings.eps = settings.latent_eps = 1e-5f;
  settings.index_eps = 1e-6f;
  settings.attention_scale = 1.0f / std::sqrt(static_cast<float>(shape.query_dims()));
  settings.swiglu_limit = 10.0f;
  settings.expert_scale = 2.827f;
  return settings;
}

}  // namespace

SyntheticStep::SyntheticStep(Stream stream, const HeadShape& shape, WeightStorage storage, int most_tokens, int keys)
    : stream_(stream),
      settings_(settings_of(shape)),
      keys_(keys),
      layer_(synthetic_layer(stream, shape, storage)),
      cache_(shape, false),
      embedding_(filled<__nv_bfloat16>(stream, row_stride(shape.hidden))),
      choice_(filled<unsigned long long>(stream, most_tokens, 0)) {
  Random random(1);
  cache_.reserve(stream, std::vector<int>(most_tokens, keys));
  const std::size_t cache_size = static_cast<std::size_t>(most_tokens) * keys;
  fill_bytes(stream, cache_.latents(), kByte, cache_size * LatentLayout(shape.kv_rank, shape.rope).stride * 2);
  const auto index_keys = noise(stream, random, cache_size * index_stride(shape.index_dims));
  copy_on_device(stream, cache_.index_keys(), index_keys.data(), index_keys.size() * 2);
  hidden_ = noise(stream, random, static_cast<std::size_t>(most_tokens) * row_stride(shape.hidden));
  std::vector<double> half_turns(shape.rope / 2);
  for (int i = 0; i < shape.rope / 2; ++i) half_turns[i] = std::pow(1e7, -2.0 * i / shape.rope) / 3.14159265358979;
  half_turns_ = Buffer<double>(stream, half_turns);
  settings_.rope = settings_.index_rope = {.dims = shape.rope, .half_turns = half_turns_.data()};

  std::vector<std::int32_t> rows;
  std::vector<std::int32_t> bases;
  std::vector<std::int32_t> experts;
  for (int t = 0; t < most_tokens; ++t) {
    bases.push_back(cache_.base(t));
    rows.push_back(cache_.base(t) + keys - 1);
    std::vector<std::int32_t> all(shape.experts);
    std::iota(all.begin(), all.end(), 0);
    std::shuffle(all.begin(), all.end(), random);
    std::sort(all.begin(), all.begin() + shape.used_experts);
    experts.insert(experts.end(), all.begin(), all.begin() + shape.used_experts);
  }
  ids_ = filled<std::int32_t>(stream, most_tokens, 0);
  positions_ = Buffer<std::int32_t>(stream, std::vector<std::int32_t>(most_tokens, keys - 1));
  cache_rows_ = Buffer<std::int32_t>(stream, rows);
  key_bases_ = Buffer<std::int32_t>(stream, bases);
  key_counts_ = Buffer<std::int32_t>(stream, std::vector<std::int32_t>(most_tokens, keys));
  experts_ = Buffer<std::int32_t>(stream, experts);
  synchronize(stream);
}

void SyntheticStep::prepare(int tokens) {
  activations_ = std::make_unique<Activations>(settings_.shape, false, tokens, keys_, multiprocessors());
}

void SyntheticStep::enqueue(int tokens, const LayerDemands& demands) const {
  const StepRows rows{.tokens = tokens,
                      .max_keys = keys_,
                      .ids = ids_.data(),
                      .positions = positions_.data(),
                      .cache_rows = cache_rows_.data(),
                      .key_bases = key_bases_.data(),
                      .key_counts = key_counts_.data(),
                      .hidden_states = hidden_.data(),
                      .forced_experts = experts_.data()};
  run_layer(stream_, settings_, layer_, embedding_.data(), cache_, rows, *activations_, library_, demands);
  if (demands.before_part) demands.before_part("argmax");
  argmax(stream_, {.rows = tokens,
                   .width = settings_.shape.vocabulary,
                   .logits = activations_->logits.data(),
                   .keys = choice_.data()});
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
