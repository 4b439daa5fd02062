#include "properties/loading/world.h"

#include <fmt/format.h>
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <functional>
#include <ostream>
#include <random>

#include "harness/loading/carry_out/carry_out.h"
#include "harness/loading/rules.h"

namespace mtpcheck::properties {
namespace {

using nlohmann::json;

// Blocks of 2 × 4: small matrices have several, and ragged ones where vLLM allows them.
constexpr std::size_t kLoadBlockRows = 2;
constexpr std::size_t kLoadBlockCols = 4;

std::size_t blocks(std::size_t size, std::size_t block) { return (size + block - 1) / block; }

json quantisation(Storage storage) {
  switch (storage) {
    case Storage::bf16:
      return nullptr;
    case Storage::fp8_block:
      return {{"quant_method", "fp8"},
              {"activation_scheme", "dynamic"},
              {"weight_block_size", {kLoadBlockRows, kLoadBlockCols}}};
    case Storage::mxfp8:
      return {{"quant_method", "modelopt"}, {"quant_algo", "MXFP8"}, {"ignore", {"lm_head"}}};
    case Storage::fp8_channel:
      return json::parse(R"({"quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head"],
        "config_groups": {"g": {"targets": ["Linear"],
          "weights": {"type": "float", "num_bits": 8, "strategy": "channel", "symmetric": true, "dynamic": false},
          "input_activations": {"type": "float", "num_bits": 8, "strategy": "token", "dynamic": true}}}})");
  }
  return nullptr;
}

// Bytes that no type takes for NaN, from the logical weight's name.
std::vector<std::byte> bytes_for(const std::string& weight, std::size_t count) {
  std::mt19937 random(static_cast<std::uint32_t>(std::hash<std::string>{}(weight)));
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(1 + random() % 60);
  return bytes;
}

class LoadFilesWriter {
 public:
  explicit LoadFilesWriter(const LoadWorld& world) : world_(world) {}

  LoadFiles files() {
    add("model.embed_tokens.weight", Dtype::bf16, {world_.vocabulary, world_.hidden});
    add("lm_head.weight", Dtype::bf16, {world_.vocabulary, world_.hidden});
    for (const char* norm : {"enorm", "hnorm", "final_layernorm", "input_layernorm", "post_attention_layernorm"}) {
      add(layer(norm) + ".weight", Dtype::bf16, {world_.hidden});
    }
    add(layer("eh_proj.weight"), Dtype::bf16, {world_.hidden, 2 * world_.hidden});
    attention();
    mixture();
    for (std::size_t i = 0; i < files_.bytes.size(); ++i) files_.headers.tensors[i].bytes = files_.bytes[i];
    return std::move(files_);
  }

 private:
  static std::string layer(const std::string& name) { return "model.mtp_layers.0." + name; }

  void add(const std::string& name, Dtype dtype, Shape shape, std::vector<std::byte> bytes = {}) {
    if (bytes.empty()) bytes = bytes_for(name, elements_of(shape) * (bits_of(dtype) / 8));
    files_.bytes.push_back(std::move(bytes));
    files_.headers.tensors.push_back({name, dtype, std::move(shape), {}, "model.safetensors", 0});
  }

  Dtype weight_dtype() const { return world_.storage == Storage::bf16 ? Dtype::bf16 : Dtype::f8_e4m3; }
  Dtype scale_dtype() const { return world_.storage == Storage::mxfp8 ? Dtype::u8 : Dtype::f32; }
  const char* scale_suffix() const { return world_.storage == Storage::fp8_block ? "_scale_inv" : "_scale"; }
  Shape scale_shape(std::size_t rows, std::size_t cols) const {
    switch (world_.storage) {
      case Storage::fp8_block:
        return {blocks(rows, kLoadBlockRows), blocks(cols, kLoadBlockCols)};
      case Storage::mxfp8:
        return {rows, cols / 32};
      default:
        return {rows, 1};
    }
  }

  void linear(const std::string& name, std::size_t rows, std::size_t cols) {
    add(layer(name) + ".weight", weight_dtype(), {rows, cols});
    if (world_.storage == Storage::bf16) return;
    add(layer(name) + ".weight" + scale_suffix(), scale_dtype(), scale_shape(rows, cols));
  }

  void attention() {
    const std::size_t heads = world_.heads_a_rank * world_.ranks;
    linear("self_attn.q_a_proj", world_.q_rank, world_.hidden);
    linear("self_attn.kv_a_proj_with_mqa", world_.kv_rank + world_.rope, world_.hidden);
    linear("self_attn.q_b_proj", heads * (world_.nope + world_.rope), world_.q_rank);
    linear("self_attn.kv_b_proj", heads * (world_.nope + world_.value), world_.kv_rank);
    linear("self_attn.o_proj", world_.hidden, heads * world_.value);
    linear("self_attn.linear_gate", heads * world_.value, world_.hidden);
    add(layer("self_attn.q_a_layernorm.weight"), Dtype::bf16, {world_.q_rank});
    add(layer("self_attn.kv_a_layernorm.weight"), Dtype::bf16, {world_.kv_rank});
    add(layer("self_attn.learnable_sink_param"), Dtype::f32, {heads});
    if (!world_.sparse) return;
    linear("self_attn.indexer.wq_b", 8, world_.q_rank);
    add(layer("self_attn.indexer.wk.weight"), Dtype::bf16, {4, world_.hidden});
    add(layer("self_attn.indexer.weights_proj.weight"), Dtype::bf16, {2, world_.hidden});
    add(layer("self_attn.indexer.k_norm.weight"), Dtype::f32, {4});
    add(layer("self_attn.indexer.k_norm.bias"), Dtype::f32, {4});
  }

  void mixture() {
    const std::size_t inner = world_.inner_a_rank * world_.ranks;
    add(layer("mlp.gate.weight"), Dtype::bf16, {world_.experts, world_.hidden});
    add(layer("mlp.gate.e_score_correction_bias"), Dtype::f32, {world_.experts});
    linear("mlp.shared_experts.gate_proj", inner, world_.hidden);
    linear("mlp.shared_experts.up_proj", inner, world_.hidden);
    linear("mlp.shared_experts.down_proj", world_.hidden, inner);
    if (world_.packed) {
      packed("gate_up_proj", {"gate_proj", "up_proj"}, inner, world_.hidden);
      packed("down_proj", {"down_proj"}, world_.hidden, inner);
      return;
    }
    for (std::size_t expert = 0; expert < world_.experts; ++expert) {
      linear(fmt::format("mlp.experts.{}.gate_proj", expert), inner, world_.hidden);
      linear(fmt::format("mlp.experts.{}.up_proj", expert), inner, world_.hidden);
      linear(fmt::format("mlp.experts.{}.down_proj", expert), world_.hidden, inner);
    }
  }

  // The same numbers as the split tensors', one expert after another and gate before up.
  void packed(const std::string& name, const std::vector<std::string>& projections, std::size_t rows,
              std::size_t cols) {
    const auto pack = [&](const std::string& suffix, Dtype dtype, const Shape& shape, const std::string& as) {
      std::vector<std::byte> all;
      for (std::size_t expert = 0; expert < world_.experts; ++expert) {
        for (const std::string& projection : projections) {
          const auto bytes = bytes_for(layer(fmt::format("mlp.experts.{}.{}.weight{}", expert, projection, suffix)),
                                       elements_of(shape) * (bits_of(dtype) / 8));
          all.insert(all.end(), bytes.begin(), bytes.end());
        }
      }
      add(layer("mlp.experts." + name + as), dtype, {world_.experts, projections.size() * shape[0], shape[1]}, all);
    };
    pack("", weight_dtype(), {rows, cols}, "");
    if (world_.storage != Storage::bf16) {
      pack(scale_suffix(), scale_dtype(), scale_shape(rows, cols), scale_suffix());
    }
  }

  const LoadWorld& world_;
  LoadFiles files_;
};

}  // namespace

json LoadWorld::json() const {
  nlohmann::json config = {{"dtype", "bfloat16"},
                           {"num_hidden_layers", 2},
                           {"num_nextn_predict_layers", 1},
                           {"hidden_size", hidden},
                           {"vocab_size", vocabulary},
                           {"num_attention_heads", heads_a_rank * ranks},
                           {"q_lora_rank", q_rank},
                           {"kv_lora_rank", kv_rank},
                           {"qk_nope_head_dim", nope},
                           {"qk_rope_head_dim", rope},
                           {"v_head_dim", value},
                           {"n_routed_experts", experts},
                           {"num_experts_per_tok", 1},
                           {"moe_intermediate_size", inner_a_rank * ranks},
                           {"index_n_heads", 2},
                           {"index_head_dim", 4},
                           {"index_topk", 4},
                           {"mlp_layer_types", {"dense", "sparse"}}};
  const bool sglang = engine == Engine::sglang;
  const char* kind = sglang ? "indexed_attention" : sparse ? "sparse_attention" : "full_attention";
  config["layer_types"] = {kind, kind};
  if (const nlohmann::json quant = quantisation(storage); !quant.is_null()) config["quantization_config"] = quant;
  return nlohmann::json::parse(config.dump());
}

void showValue(const LoadWorld& world, std::ostream& out) {
  constexpr std::array<const char*, 4> kStorage{"BF16", "FP8 block", "MXFP8", "FP8 channel"};
  out << (world.engine == Engine::sglang ? "SGLang, " : "vLLM, ") << kStorage[static_cast<std::size_t>(world.storage)]
      << (world.packed ? ", packed" : ", split") << ", " << world.ranks
      << (world.expert_parallel ? " expert-parallel" : "") << " ranks: hidden " << world.hidden << ", q_lora "
      << world.q_rank << ", kv_lora " << world.kv_rank << ", heads a rank " << world.heads_a_rank << ", nope/rope/v "
      << world.nope << "/" << world.rope << "/" << world.value << ", experts " << world.experts << ", rows a rank "
      << world.inner_a_rank << ", vocabulary " << world.vocabulary << (world.sparse ? ", sparse" : ", dense attention");
}

LoadWorld any_load_world(Engine engine) {
  const auto between = [](std::size_t low, std::size_t high) { return *rc::gen::inRange<std::size_t>(low, high + 1); };
  LoadWorld world;
  world.storage = *rc::gen::element(Storage::bf16, Storage::fp8_block, Storage::mxfp8, Storage::fp8_channel);
  world.ranks = *rc::gen::element<std::size_t>(1, 2, 4);
  world.expert_parallel = *rc::gen::arbitrary<bool>() && world.ranks > 1;
  world.packed = *rc::gen::arbitrary<bool>();
  world.sparse = *rc::gen::arbitrary<bool>();
  if (engine == Engine::sglang) {
    world.engine = engine;
    world.storage = *rc::gen::element(Storage::bf16, Storage::mxfp8);
    world.sparse = true;
    world.packed = world.packed && world.storage == Storage::bf16;
  }
  // What every rank's share must be a multiple of; one rank alone may have ragged blocks.
  const bool mx = world.storage == Storage::mxfp8;
  const bool block = world.storage == Storage::fp8_block;
  const std::size_t unit = mx ? 32 : block ? 4 : 1;
  world.hidden = unit * between(1, 2) * (mx ? 1 : 2);
  world.q_rank = unit * between(1, 2);
  world.kv_rank = unit * between(1, 2);
  world.rope = 2;
  world.nope = 2 * between(1, 3);
  world.heads_a_rank = between(1, 2);
  world.value = mx ? 32 : block ? 4 : between(1, 4);
  world.inner_a_rank = unit * between(1, 2);
  world.experts = std::max(world.ranks, between(1, 5));
  if (engine == Engine::sglang) world.experts = world.ranks * between(1, 3);
  world.vocabulary = between(1, 130);
  return world;
}

std::size_t any_rank(const LoadWorld& world) { return *rc::gen::inRange<std::size_t>(0, world.ranks); }

LoadFiles load_files(const LoadWorld& world) { return LoadFilesWriter(world).files(); }

LoadPlan plan_of_rank(const LoadWorld& world, const HeaderSet& headers, std::size_t rank) {
  const nlohmann::json json = world.json();
  const HeadConfig config = world.config();
  const LoadRequest request{config, json, headers, {world.ranks, rank, world.expert_parallel, {}}};
  return world.engine == Engine::sglang ? plan_sglang_0_5_23(request) : plan_vllm_0_33_0(request);
}

std::vector<Tensor> parameters_of_rank(const LoadWorld& world, const HeaderSet& headers, std::size_t rank) {
  const LoadPlan plan = plan_of_rank(world, headers, rank);
  std::vector<Tensor> result;
  for (std::uint32_t index = 0; index < plan.parameters.size(); ++index) {
    result.push_back(carry_out(plan, index, headers.tensors, Fill::nan).tensor);
  }
  return result;
}

}  // namespace mtpcheck::properties
