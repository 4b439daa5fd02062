#include "golden/cases/forward_case.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace mtpcheck::golden {
namespace {

const std::string kLayer = "model.mtp_layers.0.";

std::vector<std::byte> read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path.string());
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(content));
  return {bytes.begin(), bytes.end()};
}

/// Weights of the one layer in the published names.
class LayerReader {
 public:
  explicit LayerReader(const Tensors& tensors) : tensors_(tensors) {}

  bool has(const std::string& name) const { return tensors_.contains(kLayer + name); }

  static Matrix matrix(const Tensor& tensor, const std::string& name) {
    Matrix result;
    result.rows = tensor.shape[0];
    result.cols = tensor.shape[1];
    result.dtype = tensor.dtype;
    result.data = tensor.bytes.data();
    result.name = name;
    return result;
  }

  Matrix matrix(const std::string& name) const { return matrix(tensors_.at(kLayer + name), kLayer + name); }
  Vector vector(const std::string& name) const { return to_f64(tensors_.at(kLayer + name).view()); }

  MlpWeights mlp(const std::string& prefix) const {
    return {matrix(prefix + "gate_proj.weight"), matrix(prefix + "up_proj.weight"),
            matrix(prefix + "down_proj.weight")};
  }

  /// Expert `index` of a stacked tensor [E, rows, cols].
  Matrix slice(const std::string& name, std::size_t index) const {
    const auto& stack = tensors_.at(kLayer + name);
    Matrix result;
    result.rows = stack.shape[1];
    result.cols = stack.shape[2];
    result.dtype = stack.dtype;
    result.data = stack.bytes.data() + index * (stack.bytes.size() / stack.shape[0]);
    result.name = kLayer + name;
    return result;
  }

  MoeWeights moe(std::size_t experts) const {
    MoeWeights result;
    result.router = matrix("mlp.gate.weight");
    result.expert_bias = vector("mlp.gate.e_score_correction_bias");
    for (std::size_t expert = 0; expert < experts; ++expert) {
      const auto both = slice("mlp.experts.gate_up_proj", expert);
      result.experts.push_back({rows_of(both, 0, both.rows / 2), rows_of(both, both.rows / 2, both.rows / 2),
                                slice("mlp.experts.down_proj", expert)});
    }
    result.shared = mlp("mlp.shared_experts.");
    return result;
  }

  LayerWeights layer(const HeadConfig& config) const {
    const std::string attn = "self_attn.";
    LayerWeights w;
    w.enorm = vector("enorm.weight");
    w.hnorm = vector("hnorm.weight");
    w.final_layernorm = vector("final_layernorm.weight");
    w.eh_proj = matrix("eh_proj.weight");
    w.input_layernorm = vector("input_layernorm.weight");
    w.post_attention_layernorm = vector("post_attention_layernorm.weight");
    w.q_a_proj = matrix(attn + "q_a_proj.weight");
    w.q_a_layernorm = vector(attn + "q_a_layernorm.weight");
    w.q_b_proj = matrix(attn + "q_b_proj.weight");
    w.kv_a_proj = matrix(attn + "kv_a_proj_with_mqa.weight");
    w.kv_a_layernorm = vector(attn + "kv_a_layernorm.weight");
    w.kv_b_proj = matrix(attn + "kv_b_proj.weight");
    w.o_proj = matrix(attn + "o_proj.weight");
    w.linear_gate = matrix(attn + "linear_gate.weight");
    w.sink = vector(attn + "learnable_sink_param");
    if (has(attn + "indexer.wk.weight")) {
      w.indexer = {matrix(attn + "indexer.wq_b.weight"), matrix(attn + "indexer.wk.weight"),
                   matrix(attn + "indexer.weights_proj.weight"), vector(attn + "indexer.k_norm.weight"),
                   vector(attn + "indexer.k_norm.bias")};
    }
    w.moe = moe(config.n_routed_experts);
    w.lm_head = matrix(tensors_.at("lm_head.weight"), "lm_head.weight");
    return w;
  }

 private:
  const Tensors& tensors_;
};

}  // namespace

Tensors read_safetensors(const std::filesystem::path& path) {
  const auto bytes = read_bytes(path);
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < 8; ++i) length |= std::to_integer<std::uint64_t>(bytes.at(i)) << (8 * i);
  const auto* const text = reinterpret_cast<const char*>(bytes.data()) + 8;
  const auto header = nlohmann::json::parse(text, text + length);
  Tensors result;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const auto first = entry.at("data_offsets").at(0).get<std::ptrdiff_t>();
    const auto last = entry.at("data_offsets").at(1).get<std::ptrdiff_t>();
    const auto data = bytes.begin() + 8 + static_cast<std::ptrdiff_t>(length);
    result[name] = {dtype_from_safetensors(entry.at("dtype").get<std::string>()).value(),
                    entry.at("shape").get<Shape>(),
                    {data + first, data + last}};
  }
  return result;
}

HeadInput ForwardCase::input(std::size_t step) const {
  const std::string prefix = step == 0 ? "" : "step" + std::to_string(step) + ".";
  HeadInput result;
  result.input_ids = to_i64(inputs.at(prefix + "input_ids").view());
  result.positions = to_i64(inputs.at(prefix + "positions").view());
  result.hidden_states = inputs.at(prefix + "hidden_states");
  result.cu_seqlens = to_i64(inputs.at(prefix + "cu_seqlens").view());
  return result;
}

ForwardCase read_forward_case(const std::filesystem::path& folder, const std::string& name) {
  const auto at = folder / name;
  ForwardCase result;
  std::ifstream file(at / "config.json");
  result.config = parse_head_config(nlohmann::json::parse(file), (at / "config.json").string());
  const auto tensors = std::make_shared<Tensors>(read_safetensors(at / "weights.safetensors"));
  result.weights.embed_tokens =
      LayerReader::matrix(tensors->at("model.embed_tokens.weight"), "model.embed_tokens.weight");
  result.weights.layers.push_back(LayerReader(*tensors).layer(result.config));
  result.weights.storage = tensors;
  result.inputs = read_safetensors(at / "inputs.safetensors");
  result.vllm = read_safetensors(at / "activations_vllm.safetensors");
  result.hf = read_safetensors(at / "activations_hf.safetensors");
  return result;
}

std::vector<std::string> forward_cases(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

const Tensor* find_recorded(const Tensors& recorded, const std::string& stage, const std::string& dtype) {
  auto key = stage_key_from_name(stage).value();
  const std::string prefix = key.step == 0 ? "" : "step" + std::to_string(key.step) + ".";
  key.step = 0;
  const auto found = recorded.find(prefix + dtype + "." + to_string(key));
  return found == recorded.end() ? nullptr : &found->second;
}

double distance(const Tensor& a, const Tensor& b) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (a.shape != b.shape) return kInfinity;
  const auto x = to_f64(a.view());
  const auto y = to_f64(b.view());
  double worst = 0;
  double range = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i]) || !std::isfinite(y[i])) {
      if (x[i] != y[i]) return kInfinity;
      continue;
    }
    worst = std::max(worst, std::abs(x[i] - y[i]));
    range = std::max(range, std::abs(y[i]));
  }
  return worst == 0 ? 0 : worst / range;
}

}  // namespace mtpcheck::golden
