// The plan of a checkpoint with Hy4-preview's layout, experts split and quantised: 131 shards, about 125,000 tensors.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "harness/loading/plan/coverage.h"
#include "harness/loading/rules.h"

namespace mtpcheck {
namespace {

nlohmann::json hy4_preview() {
  nlohmann::json config = nlohmann::json::parse(R"({
    "model_type": "hy_v4", "num_hidden_layers": 78, "num_nextn_predict_layers": 1, "hidden_size": 6144,
    "vocab_size": 120832, "num_attention_heads": 64, "q_lora_rank": 2048, "kv_lora_rank": 512,
    "qk_nope_head_dim": 192, "qk_rope_head_dim": 64, "v_head_dim": 256, "intermediate_size": 18432,
    "n_routed_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "index_n_heads": 32,
    "index_head_dim": 128, "index_topk": 2048,
    "quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128],
                            "modules_to_not_convert": ["lm_head"]}})");
  for (int layer = 0; layer < 78; ++layer) {
    config["layer_types"].push_back("sparse_attention");
    config["mlp_layer_types"].push_back(layer == 0 ? "dense" : "sparse");
  }
  return config;
}

class Headers {
 public:
  HeaderSet made() {
    add("model.embed_tokens.weight", Dtype::bf16, {120832, 6144});
    add("lm_head.weight", Dtype::bf16, {120832, 6144});
    for (std::size_t layer = 0; layer < 78; ++layer) block(fmt::format("model.layers.{}.", layer));
    block("model.mtp_layers.0.");
    for (const char* norm : {"enorm", "hnorm", "final_layernorm"}) {
      add(fmt::format("model.mtp_layers.0.{}.weight", norm), Dtype::bf16, {6144});
    }
    add("model.mtp_layers.0.eh_proj.weight", Dtype::bf16, {6144, 12288});
    return std::move(set_);
  }

 private:
  void add(std::string name, Dtype dtype, Shape shape) {
    const std::string file = fmt::format("model-{:05}-of-00131.safetensors", set_.tensors.size() % 131 + 1);
    set_.tensors.push_back({std::move(name), dtype, std::move(shape), {}, file, 0});
  }

  void quantised(const std::string& name, std::size_t rows, std::size_t cols) {
    add(name + ".weight", Dtype::f8_e4m3, {rows, cols});
    add(name + ".weight_scale_inv", Dtype::f32, {(rows + 127) / 128, (cols + 127) / 128});
  }

  void block(const std::string& prefix) {
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) {
      add(prefix + norm + ".weight", Dtype::bf16, {6144});
    }
    const std::string attention = prefix + "self_attn.";
    quantised(attention + "q_a_proj", 2048, 6144);
    quantised(attention + "kv_a_proj_with_mqa", 576, 6144);
    quantised(attention + "q_b_proj", 16384, 2048);
    quantised(attention + "kv_b_proj", 28672, 512);
    quantised(attention + "o_proj", 6144, 16384);
    quantised(attention + "linear_gate", 16384, 6144);
    quantised(attention + "indexer.wq_b", 4096, 2048);
    add(attention + "indexer.wk.weight", Dtype::bf16, {128, 6144});
    add(attention + "indexer.weights_proj.weight", Dtype::bf16, {32, 6144});
    add(attention + "indexer.k_norm.weight", Dtype::f32, {128});
    add(attention + "indexer.k_norm.bias", Dtype::f32, {128});
    add(attention + "q_a_layernorm.weight", Dtype::bf16, {2048});
    add(attention + "kv_a_layernorm.weight", Dtype::bf16, {512});
    add(attention + "learnable_sink_param", Dtype::f32, {64});
    add(prefix + "mlp.gate.weight", Dtype::f32, {256, 6144});
    add(prefix + "mlp.gate.e_score_correction_bias", Dtype::f32, {256});
    feed_forward(prefix + "mlp.shared_experts.");
    for (std::size_t expert = 0; expert < 256; ++expert) feed_forward(fmt::format("{}mlp.experts.{}.", prefix, expert));
  }

  void feed_forward(const std::string& prefix) {
    quantised(prefix + "gate_proj", 2048, 6144);
    quantised(prefix + "up_proj", 2048, 6144);
    quantised(prefix + "down_proj", 6144, 2048);
  }

  HeaderSet set_;
};

void plan_and_coverage(benchmark::State& state) {
  const nlohmann::json json = hy4_preview();
  const HeadConfig config = parse_head_config(json, "config.json");
  const HeaderSet headers = Headers().made();
  std::size_t complete = 0;
  while (state.KeepRunning()) {
    const LoadPlan plan = plan_vllm_0_33_0({config, json, headers});
    if (plan.refusal || plan.exception || !plan.warnings.empty()) state.SkipWithError("the load is not faultless");
    complete = 0;
    for (const Coverage& coverage : coverage_of(plan)) complete += coverage.complete() ? 1 : 0;
    if (complete != plan.parameters.size()) state.SkipWithError("a parameter is not covered");
  }
  state.counters["tensors"] = static_cast<double>(headers.tensors.size());
  state.counters["parameters"] = static_cast<double>(complete);
}
BENCHMARK(plan_and_coverage)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace mtpcheck
