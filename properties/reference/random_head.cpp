#include "properties/reference/random_head.h"

#include <rapidcheck.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <stdexcept>

namespace mtpcheck::properties {
namespace {

class Numbers {
 public:
  explicit Numbers(std::uint32_t seed) : random_(seed) {}

  Rows<float> matrix(std::size_t rows, std::size_t cols) {
    const double scale = 1.0 / std::sqrt(static_cast<double>(cols));
    return Rows<float>::NullaryExpr(static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(cols),
                                    [&] { return static_cast<float>(scale * normal_(random_)); });
  }
  Vector near(double middle, std::size_t size, double spread = 0.2) {
    Vector out(size);
    for (auto& value : out) value = static_cast<double>(static_cast<float>(middle + spread * normal_(random_)));
    return out;
  }
  std::int64_t below(std::size_t limit) { return static_cast<std::int64_t>(random_() % limit); }
  PlainMlp mlp(std::size_t width, std::size_t hidden) {
    return {matrix(width, hidden), matrix(width, hidden), matrix(hidden, width)};
  }

 private:
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
};

Matrix view(const Rows<float>& rows, const char* name) {
  Matrix out;
  out.rows = static_cast<std::size_t>(rows.rows());
  out.cols = static_cast<std::size_t>(rows.cols());
  out.dtype = Dtype::f32;
  out.data = reinterpret_cast<const std::byte*>(rows.data());
  out.name = std::string(name);
  return out;
}

MlpWeights view(const PlainMlp& mlp) { return {view(mlp.gate, "gate"), view(mlp.up, "up"), view(mlp.down, "down")}; }

std::size_t size(int low, int high) { return static_cast<std::size_t>(*rc::gen::inRange(low, high + 1)); }

}  // namespace

HeadConfig any_config() {
  HeadConfig c;
  c.model_type = std::string("hy_v4");
  c.num_hidden_layers = 3;
  c.hidden_size = size(2, 40);
  c.vocab_size = size(2, 30);
  c.num_attention_heads = size(1, 4);
  c.q_lora_rank = size(1, 20);
  c.kv_lora_rank = size(1, 36);
  c.qk_nope_head_dim = size(1, 20);
  c.qk_rope_head_dim = 2 * size(1, 5);
  c.v_head_dim = size(1, 20);
  c.sparse_attention = *rc::gen::arbitrary<bool>();
  c.index_n_heads = size(1, 3);
  c.index_head_dim = c.qk_rope_head_dim + size(0, 20);
  c.index_topk = size(1, 12);
  c.sparse_mlp = *rc::gen::arbitrary<bool>();
  c.n_routed_experts = size(1, 9);
  c.num_experts_per_tok = 1 + size(0, static_cast<int>(c.n_routed_experts) - 1);
  c.n_shared_experts = size(0, 2);
  c.moe_intermediate_size = size(1, 20);
  c.intermediate_size = size(1, 20);
  c.norm_topk_prob = *rc::gen::arbitrary<bool>();
  c.swiglu_limit = *rc::gen::element(0.0, 0.5, 10.0);
  c.gate = *rc::gen::element(GateKind::none, GateKind::elementwise, GateKind::headwise);
  c.learnable_sink = *rc::gen::arbitrary<bool>();
  c.max_position_embeddings = 4096;
  return c;
}

PlainHead random_head(const HeadConfig& c, std::uint32_t seed) {
  Numbers numbers(seed);
  PlainHead h;
  h.config = c;
  const std::size_t heads = c.num_attention_heads;
  h.embed = numbers.matrix(c.vocab_size, c.hidden_size);
  h.lm_head = numbers.matrix(c.vocab_size, c.hidden_size);
  h.eh_proj = numbers.matrix(c.hidden_size, 2 * c.hidden_size);
  h.q_a = numbers.matrix(c.q_lora_rank, c.hidden_size);
  h.q_b = numbers.matrix(heads * (c.qk_nope_head_dim + c.qk_rope_head_dim), c.q_lora_rank);
  h.kv_a = numbers.matrix(c.kv_lora_rank + c.qk_rope_head_dim, c.hidden_size);
  h.kv_b = numbers.matrix(heads * (c.qk_nope_head_dim + c.v_head_dim), c.kv_lora_rank);
  h.o_proj = numbers.matrix(c.hidden_size, heads * c.v_head_dim);
  h.linear_gate = numbers.matrix(c.gate == GateKind::headwise ? heads : heads * c.v_head_dim, c.hidden_size);
  h.wq_b = numbers.matrix(c.index_n_heads * c.index_head_dim, c.q_lora_rank);
  h.wk = numbers.matrix(c.index_head_dim, c.hidden_size);
  h.weights_proj = numbers.matrix(c.index_n_heads, c.hidden_size);
  h.k_norm_weight = numbers.near(1, c.index_head_dim);
  h.k_norm_bias = numbers.near(0, c.index_head_dim);
  h.enorm = numbers.near(1, c.hidden_size);
  h.hnorm = numbers.near(1, c.hidden_size);
  h.input_norm = numbers.near(1, c.hidden_size);
  h.post_norm = numbers.near(1, c.hidden_size);
  h.final_norm = numbers.near(1, c.hidden_size);
  h.q_a_norm = numbers.near(1, c.q_lora_rank);
  h.kv_a_norm = numbers.near(1, c.kv_lora_rank);
  if (c.learnable_sink) h.sink = numbers.near(0, heads, 2);
  h.bias = numbers.near(0, c.n_routed_experts, 0.1);
  h.router = numbers.matrix(c.n_routed_experts, c.hidden_size);
  for (std::size_t e = 0; e < c.n_routed_experts; ++e) {
    h.experts.push_back(numbers.mlp(c.moe_intermediate_size, c.hidden_size));
  }
  h.shared =
      numbers.mlp(c.sparse_mlp ? c.moe_intermediate_size * c.n_shared_experts : c.intermediate_size, c.hidden_size);
  return h;
}

HeadWeights PlainHead::weights() const {
  const auto kept = std::make_shared<const PlainHead>(*this);
  HeadWeights out;
  out.storage = kept;
  out.embed_tokens = view(kept->embed, "embed_tokens");
  LayerWeights& w = out.layers.emplace_back();
  w.enorm = enorm;
  w.hnorm = hnorm;
  w.final_layernorm = final_norm;
  w.input_layernorm = input_norm;
  w.post_attention_layernorm = post_norm;
  w.q_a_layernorm = q_a_norm;
  w.kv_a_layernorm = kv_a_norm;
  w.eh_proj = view(kept->eh_proj, "eh_proj");
  w.q_a_proj = view(kept->q_a, "q_a_proj");
  w.q_b_proj = view(kept->q_b, "q_b_proj");
  w.kv_a_proj = view(kept->kv_a, "kv_a_proj");
  w.kv_b_proj = view(kept->kv_b, "kv_b_proj");
  w.o_proj = view(kept->o_proj, "o_proj");
  if (config.gate != GateKind::none) w.linear_gate = view(kept->linear_gate, "linear_gate");
  w.sink = sink;
  w.lm_head = view(kept->lm_head, "lm_head");
  if (config.sparse_attention) {
    w.indexer = IndexerWeights{view(kept->wq_b, "wq_b"), view(kept->wk, "wk"), view(kept->weights_proj, "weights_proj"),
                               k_norm_weight, k_norm_bias};
  }
  if (!config.sparse_mlp) {
    w.mlp = view(kept->shared);
    return out;
  }
  MoeWeights& moe = w.moe.emplace();
  moe.router = view(kept->router, "router");
  moe.expert_bias = bias;
  for (const auto& expert : kept->experts) moe.experts.push_back(view(expert));
  if (config.n_shared_experts > 0) moe.shared = view(kept->shared);
  return out;
}

std::uint32_t any_seed() { return *rc::gen::arbitrary<std::uint32_t>(); }

HeadInput random_input(const HeadConfig& config, const std::vector<std::size_t>& lengths, std::uint32_t seed) {
  Numbers numbers(seed);
  HeadInput input;
  input.cu_seqlens = {0};
  for (const std::size_t length : lengths) {
    const std::int64_t start = numbers.below(3) == 0 ? numbers.below(2000) : 0;
    for (std::size_t i = 0; i < length; ++i) {
      input.positions.push_back(start + static_cast<std::int64_t>(i));
      input.input_ids.push_back(numbers.below(config.vocab_size));
    }
    input.cu_seqlens.push_back(input.cu_seqlens.back() + static_cast<std::int64_t>(length));
  }
  const Rows<float> hidden =
      numbers.matrix(input.tokens(), config.hidden_size) * std::sqrt(static_cast<float>(config.hidden_size));
  input.hidden_states =
      tensor_of<float>({input.tokens(), config.hidden_size}, {hidden.data(), static_cast<std::size_t>(hidden.size())});
  return input;
}

void Recording::record(const StageKey& key, const TensorView& value) {
  all.push_back({key, {value.dtype, value.shape, {value.bytes.begin(), value.bytes.end()}}});
}

const Tensor& Recording::at(Stage stage, std::size_t sequence) const {
  for (const auto& one : all) {
    if (one.key.stage == stage && one.key.sequence.value_or(0) == sequence) return one.value;
  }
  throw std::out_of_range(std::string(name(stage)));
}

std::vector<double> Recording::values(Stage stage) const { return to_f64(at(stage).view()); }

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 1;
  double difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (std::isfinite(b[i])) largest = std::max(largest, std::fabs(b[i]));
    const double d = std::fabs(a[i] - b[i]);
    difference = d >= 0 ? std::max(difference, d) : std::numeric_limits<double>::infinity();
  }
  return difference / largest;
}

}  // namespace mtpcheck::properties
