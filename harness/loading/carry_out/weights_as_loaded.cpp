#include "harness/loading/carry_out/weights_as_loaded.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/loading/carry_out/carry_out.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

void check(const LoadPlan& plan, const LoadRequest& request) {
  const std::string engine = plan.engine + " " + plan.version;
  if (plan.engine != "vllm") {
    throw input_error(
        fmt::format("{}: its parameters are planned and digested, but no head is made of them: run the "
                    "weights as loaded with --loader vllm",
                    engine));
  }
  if (plan.refusal) {
    throw input_error(fmt::format("config.json: {} refuses {}: {}. There are no weights as loaded to run on", engine,
                                  plan.refusal->config_key, plan.refusal->message));
  }
  if (plan.exception) {
    const std::string where = plan.exception->tensor == kNone
                                  ? std::string("its check after the load")
                                  : "tensor " + request.headers.tensors[plan.exception->tensor].name;
    throw input_error(fmt::format("{} stops at {} with {}: {}. There are no weights as loaded to run on", engine, where,
                                  plan.exception->type, plan.exception->message));
  }
  if (request.topology.tp_size != 1) {
    throw input_error(
        fmt::format("rank {} of {} holds a part of each matrix, and a head needs the whole: run the weights "
                    "as loaded with --tp-size 1",
                    request.topology.tp_rank, request.topology.tp_size));
  }
}

// The carried-out parameters, and how matrices lie in them.
class Parameters {
 public:
  Parameters(const LoadPlan& plan, std::span<const TensorView> tensors, Fill fill, std::uint64_t seed)
      : plan_(plan), carried_(std::make_shared<std::vector<CarriedOut>>()) {
    carried_->reserve(plan.parameters.size());
    for (std::uint32_t index = 0; index < plan.parameters.size(); ++index) {
      const Parameter& parameter = plan.parameters[index];
      if (parameter.role == Role::global_scale) {
        throw input_error("NVFP4 weights are loaded but not run: no head decodes " + parameter.scales);
      }
      by_name_.emplace(parameter.name, index);
      if (parameter.role == Role::scale) scale_of_.emplace(parameter.scales, index);
      carried_->push_back(carry_out(plan, index, tensors, fill, seed));
    }
  }

  std::shared_ptr<const void> storage() const { return carried_; }
  bool has(const std::string& name) const { return by_name_.contains(name); }
  bool unassigned(const std::string& name) const {
    const std::uint32_t index = index_of(name);
    return (*carried_)[index].unwritten == plan_.parameters[index].elements();
  }

  Vector vector(const std::string& name) const { return to_f64(tensor(index_of(name)).view(name)); }

  // Rows of one expert (0 where there are none), with their scales.
  Matrix matrix(const std::string& name, Interval rows, std::size_t expert = 0) const {
    const std::uint32_t index = index_of(name);
    const Parameter& parameter = plan_.parameters[index];
    Matrix whole{.rows = parameter.extents.rows,
                 .cols = parameter.extents.cols,
                 .dtype = parameter.dtype,
                 .data = element(index, expert * parameter.extents.rows * parameter.extents.cols),
                 .scales = {},
                 .name = name};
    const auto scale = scale_of_.find(name);
    if (scale == scale_of_.end()) return rows_of(whole, rows.begin, rows.size());
    const Parameter& grid = plan_.parameters[scale->second];
    whole.scales = {.dtype = grid.dtype == Dtype::u8 ? Dtype::f8_e8m0 : grid.dtype,
                    .data = element(scale->second, expert * grid.extents.rows * grid.extents.cols),
                    .block_rows = grid.block_rows,
                    .block_cols = grid.block_cols,
                    .stride = grid.extents.cols};
    Matrix slice = rows_of(whole, rows.begin, rows.size());
    if (grid.scale_a_part) {
      // Parts of different heights have one number each: the grid begins anew with the part.
      slice.scales.data = element(scale->second, expert * grid.extents.rows + part_at(parameter, rows.begin));
      slice.scales.first_row = 0;
      slice.scales.block_rows = rows.size();
    }
    return slice;
  }

  Matrix matrix(const std::string& name) const {
    return matrix(name, {0, plan_.parameters[index_of(name)].extents.rows});
  }

  // A projection inside a fused parameter.
  Matrix part(const std::string& name, std::size_t which, std::size_t expert = 0) const {
    return matrix(name, plan_.parameters[index_of(name)].parts.at(which).rows, expert);
  }

  const Parameter& parameter(const std::string& name) const { return plan_.parameters[index_of(name)]; }

 private:
  std::uint32_t index_of(const std::string& name) const {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) throw input_error("the engine's draft head has no parameter " + name);
    return found->second;
  }
  const Tensor& tensor(std::uint32_t index) const { return (*carried_)[index].tensor; }
  const std::byte* element(std::uint32_t index, std::size_t at) const {
    return tensor(index).bytes.data() + at * (bits_of(tensor(index).dtype) / 8);
  }
  static std::size_t part_at(const Parameter& parameter, std::size_t row) {
    std::size_t which = 0;
    while (which + 1 < parameter.parts.size() && parameter.parts[which].rows.end <= row) ++which;
    return which;
  }

  const LoadPlan& plan_;
  std::shared_ptr<std::vector<CarriedOut>> carried_;
  std::map<std::string, std::uint32_t, std::less<>> by_name_;
  std::map<std::string, std::uint32_t, std::less<>> scale_of_;
};

MlpWeights feed_forward(const Parameters& from, const std::string& name) {
  return {from.part(name + ".gate_up_proj.weight", 0), from.part(name + ".gate_up_proj.weight", 1),
          from.matrix(name + ".down_proj.weight")};
}

MoeWeights mixture(const Parameters& from, const std::string& mlp) {
  MoeWeights moe;
  moe.router = from.matrix(mlp + ".gate.weight");
  moe.expert_bias = from.vector(mlp + ".expert_bias");
  const std::string routed = mlp + ".experts.routed_experts.";
  const Parameter& down = from.parameter(routed + "w2_weight");
  for (std::size_t expert = 0; expert < down.extents.experts; ++expert) {
    moe.experts.push_back({from.part(routed + "w13_weight", 0, expert), from.part(routed + "w13_weight", 1, expert),
                           from.matrix(routed + "w2_weight", {0, down.extents.rows}, expert)});
  }
  if (from.has(mlp + ".shared_experts.down_proj.weight")) moe.shared = feed_forward(from, mlp + ".shared_experts");
  return moe;
}

IndexerWeights indexer(const Parameters& from, const std::string& name) {
  return {from.matrix(name + ".wq_b.weight"), from.part(name + ".wk_weights_proj.weight", 0),
          from.part(name + ".wk_weights_proj.weight", 1), from.vector(name + ".k_norm.weight"),
          from.vector(name + ".k_norm.bias")};
}

void attention(const Parameters& from, const std::string& name, LayerWeights& layer) {
  layer.q_a_proj = from.part(name + ".fused_qkv_a_proj.weight", 0);
  layer.kv_a_proj = from.part(name + ".fused_qkv_a_proj.weight", 1);
  layer.q_a_layernorm = from.vector(name + ".q_a_layernorm.weight");
  layer.kv_a_layernorm = from.vector(name + ".kv_a_layernorm.weight");
  layer.q_b_proj = from.matrix(name + ".q_b_proj.weight");
  layer.kv_b_proj = from.matrix(name + ".kv_b_proj.weight");
  layer.o_proj = from.matrix(name + ".o_proj.weight");
  if (from.has(name + ".linear_gate.weight")) layer.linear_gate = from.matrix(name + ".linear_gate.weight");
  if (from.has(name + ".learnable_sink_param")) layer.sink = from.vector(name + ".learnable_sink_param");
  if (from.has(name + ".indexer.wq_b.weight")) layer.indexer = indexer(from, name + ".indexer");
}

LayerWeights layer_weights(const Parameters& from, const std::string& name, std::size_t vocabulary) {
  LayerWeights layer;
  layer.enorm = from.vector(name + ".enorm.weight");
  layer.hnorm = from.vector(name + ".hnorm.weight");
  layer.final_layernorm = from.vector(name + ".final_layernorm.weight");
  layer.eh_proj = from.matrix(name + ".eh_proj.weight");
  const std::string block = name + ".mtp_block";
  layer.input_layernorm = from.vector(block + ".input_layernorm.weight");
  layer.post_attention_layernorm = from.vector(block + ".post_attention_layernorm.weight");
  attention(from, block + ".self_attn", layer);
  if (from.has(block + ".mlp.gate.weight")) {
    layer.moe = mixture(from, block + ".mlp");
  } else {
    layer.mlp = feed_forward(from, block + ".mlp");
  }
  layer.lm_head = from.matrix(name + ".shared_head.head.weight", {0, vocabulary});
  return layer;
}

}  // namespace

HeadWeights weights_as_loaded(const LoadPlan& plan, const LoadRequest& request, std::span<const TensorView> tensors,
                              Fill fill, std::uint64_t seed) {
  check(plan, request);
  const Parameters from(plan, tensors, fill, seed);
  const std::size_t vocabulary = request.config.vocab_size;
  HeadWeights weights;
  weights.storage = from.storage();
  weights.embed_tokens = from.matrix("model.embed_tokens.weight", {0, vocabulary});
  const std::size_t layers = std::max<std::size_t>(request.config.num_nextn_predict_layers, 1);
  for (std::size_t index = 0; index < layers; ++index) {
    const std::string name = fmt::format("model.layers.{}", request.config.num_hidden_layers + index);
    weights.layers.push_back(layer_weights(from, name, vocabulary));
    if (!from.unassigned(name + ".shared_head.head.weight")) continue;
    if (request.config.tie_word_embeddings) {
      weights.layers.back().lm_head = weights.embed_tokens;
    } else if (index > 0) {
      weights.layers.back().lm_head = weights.layers.front().lm_head;
    }
  }
  return weights;
}

}  // namespace mtpcheck
