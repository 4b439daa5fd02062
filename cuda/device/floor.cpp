#include "cuda/device/floor.h"

#include <algorithm>
#include <cmath>

namespace mtpcheck::cuda {
namespace {

constexpr double kBf16 = 2;
constexpr double kF32 = 4;

double bytes_per_weight(WeightStorage storage) {
  switch (storage) {
    case WeightStorage::bf16:
      return kBf16;
    case WeightStorage::fp8_block:
      return 1 + kF32 / (128 * 128);
    case WeightStorage::mxfp8:
      return 1 + 1.0 / 32;
  }
  return kBf16;
}

}  // namespace

double KernelCost::seconds(const DeviceRates& rates) const {
  return std::max(bytes / rates.bytes_per_second, flops / rates.flops_per_second);
}

double expected_experts(const HeadShape& s, int tokens) {
  return s.experts * (1 - std::pow(1 - static_cast<double>(s.used_experts) / s.experts, tokens));
}

std::vector<KernelCost> decode_costs(const HeadShape& s, WeightStorage storage, int token_count, int keys) {
  const double t = token_count;
  const double quantised = bytes_per_weight(storage);
  const double h = s.hidden;
  const double values = static_cast<double>(s.heads) * s.value;
  const double queries = static_cast<double>(s.heads) * s.query_dims();
  const double latent = s.kv_rank + s.rope;
  const double selected = std::min(s.top_k, keys);
  const double index_width = static_cast<double>(s.index_heads) * s.index_dims;
  const auto product = [&](const std::string& name, double weights, double bytes_a_weight, double in, double out) {
    return KernelCost{name, weights * bytes_a_weight + t * (in + out) * kBf16, 2 * t * weights};
  };

  std::vector<KernelCost> costs;
  costs.push_back({"embed_concat", t * 8 * h, 0});
  costs.push_back(product("eh_proj", 2 * h * h, kBf16, 2 * h, h));
  costs.push_back({"input_layernorm", t * 4 * h, 0});
  const double down = h * (values + s.q_rank + latent);
  const double index_down = h * (s.index_dims + s.index_heads);
  costs.push_back({"gate, q_a, kv_a, index key and weights",
                   down * quantised + index_down * kBf16 + t * kBf16 * (h + values + s.q_rank + latent),
                   2 * t * (down + index_down)});
  costs.push_back({"latent_norms", t * 4 * (s.q_rank + latent), 0});
  costs.push_back(
      product("q_b, index query", s.q_rank * (queries + index_width), quantised, s.q_rank, queries + index_width));
  costs.push_back({"query_rope", t * 4 * s.heads * s.rope, 0});
  costs.push_back(product("absorb_query", static_cast<double>(s.heads) * s.nope * s.kv_rank, kBf16,
                          static_cast<double>(s.heads) * s.nope, static_cast<double>(s.heads) * s.kv_rank));
  costs.push_back({"index_key, index_query", t * 4 * (index_width + s.index_dims), 0});
  costs.push_back({"index_scores", t * keys * (kBf16 * s.index_dims + kF32), 2 * t * keys * index_width});
  costs.push_back({"top_k", t * kF32 * (keys + selected), 0});
  costs.push_back(
      {"sparse_attention", t * selected * latent * kBf16, 2 * t * s.heads * selected * (latent + s.kv_rank)});
  costs.push_back(
      product("expand_value", values * s.kv_rank, quantised, static_cast<double>(s.heads) * s.kv_rank, values));
  costs.push_back({"output_gate", t * 6 * values, 0});
  costs.push_back(product("o_proj", h * values, quantised, values, h));
  costs.push_back({"add, post_attention_layernorm", t * 8 * h, 0});
  costs.push_back({"router", s.experts * h * kF32 + t * s.experts * 2 * kF32, 2 * t * s.experts * h});
  const double expert = static_cast<double>(s.inner) * h;
  const double used = expected_experts(s, token_count);
  const double shared = static_cast<double>(s.plain_inner) * h;
  costs.push_back({"shared expert", 3 * shared * quantised, 6 * t * shared});
  costs.push_back({"dispatch, experts_up", used * 2 * expert * quantised + t * s.used_experts * s.inner * kBf16,
                   4 * t * s.used_experts * expert});
  costs.push_back(
      {"experts_down", used * expert * quantised + t * s.used_experts * h * kF32, 2 * t * s.used_experts * expert});
  costs.push_back({"combine, final_layernorm", t * h * (kF32 * (s.used_experts + 1) + 3 * kBf16), 0});
  costs.push_back(product("lm_head", h * s.vocabulary, kBf16, h, 2.0 * s.vocabulary));
  costs.push_back({"argmax", t * kF32 * s.vocabulary, 0});
  return costs;
}

double total_seconds(const std::vector<KernelCost>& costs, const DeviceRates& rates) {
  double sum = 0;
  for (const auto& cost : costs) sum += cost.seconds(rates);
  return sum;
}

HeadShape hy4_preview() {
  return {.hidden = 6144,
          .vocabulary = 120832,
          .q_rank = 2048,
          .kv_rank = 512,
          .heads = 64,
          .nope = 192,
          .rope = 64,
          .value = 256,
          .index_heads = 32,
          .index_dims = 128,
          .top_k = 2048,
          .experts = 256,
          .used_experts = 8,
          .inner = 2048,
          .plain_inner = 2048};
}

}  // namespace mtpcheck::cuda
