#include "cuda/torch/tensor_weights.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <memory>
#include <string>

#include "cuda/head/shape.h"
#include "cuda/kernels/numeric/rows.h"
#include "cuda/runtime/memory.h"
#include "reference/tensor/error.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {
namespace {

/// Makes one layer's views; what is made anew goes to `made`.
class Adopter {
 public:
  Adopter(Stream stream, const HeadShape& shape, std::vector<at::Tensor>& made)
      : stream_(stream), shape_(shape), made_(made) {}

  DeviceLayer layer(const HeadConfig& config, const TensorLayer& w) const;

 private:
  static DeviceMatrix matrix(const TensorMatrix& given, std::int64_t rows, std::int64_t cols, const std::string& name) {
    DeviceMatrix out;
    out.view = matrix_view(given, name);
    if (out.view.rows != rows || out.view.cols != cols) {
      throw input_error(fmt::format("{} is {} x {}, expected {} x {}", name, out.view.rows, out.view.cols, rows, cols));
    }
    return out;
  }

  WideMatrix wide(const at::Tensor& given, std::int64_t rows, std::int64_t cols, const std::string& name) const {
    WideMatrix out{.rows = static_cast<int>(rows), .cols = static_cast<int>(cols)};
    if (given.defined() && given.scalar_type() == at::kFloat) {
      out.data = f32_rows_view(given, rows, cols, name);
    } else {
      out.narrow = matrix({given}, rows, cols, name);
    }
    return out;
  }

  Buffer<float> vector(const at::Tensor& given, std::int64_t size, const std::string& name) const {
    if (!given.defined() || given.numel() != size) {
      throw input_error(fmt::format("{} has {} entries, expected {}", name, given.defined() ? given.numel() : 0, size));
    }
    check_device(given, name);
    const auto values = given.to(at::kFloat).contiguous();
    Buffer<float> out(static_cast<std::size_t>(size));
    copy_on_device(stream_, out.data(), values.const_data_ptr(), static_cast<std::size_t>(size) * sizeof(float));
    made_.push_back(values);  // until the copy is done
    return out;
  }

  DeviceMlp mlp(const TensorMlp& given, std::int64_t inner, std::int64_t stack, const std::string& name) const {
    DeviceMlp out{matrix(given.gate, inner, shape_.hidden, name + ".gate_proj"),
                  matrix(given.up, inner, shape_.hidden, name + ".up_proj"),
                  matrix(given.down, shape_.hidden, inner, name + ".down_proj")};
    for (const TensorMatrix* each : {&given.gate, &given.up, &given.down}) {
      const std::int64_t matrices = each->data.dim() == 3 ? each->data.size(0) : 1;
      if (matrices != stack) throw input_error(fmt::format("{} has {} experts, expected {}", name, matrices, stack));
    }
    if (out.gate.view.format != out.up.view.format) {
      throw input_error(fmt::format("{}: gate_proj and up_proj have different formats", name));
    }
    return out;
  }

  void attention(const TensorLayer& w, DeviceLayer& out) const;

  Stream stream_;
  const HeadShape& shape_;
  std::vector<at::Tensor>& made_;
};

/// A scale a row and block of columns: what a slice of rows can take with it.
at::Tensor scales_of_rows(const TensorMatrix& matrix) {
  const auto rows = at::arange(matrix.data.size(0), matrix.data.options().dtype(at::kLong));
  return matrix.scales.view(matrix.scales.element_size() == 1 ? at::kByte : at::kFloat)
      .index_select(0, rows.floor_divide(matrix.block_rows))
      .view(matrix.scales.scalar_type());
}

/// kv_b_proj's value half in place, a matrix a head, and its key half transposed.
void Adopter::attention(const TensorLayer& w, DeviceLayer& out) const {
  const std::int64_t head_rows = shape_.nope + shape_.value;
  matrix(w.kv_b_proj, shape_.heads * head_rows, shape_.kv_rank, "kv_b_proj");
  const auto heads = w.kv_b_proj.data.unflatten(0, {shape_.heads, head_rows});
  TensorMatrix values{heads.narrow(1, shape_.nope, shape_.value)};
  at::Tensor keys = heads.narrow(1, 0, shape_.nope);
  if (w.kv_b_proj.scales.defined()) {
    const auto scales = scales_of_rows(w.kv_b_proj);
    values.scales = scales.view(at::kByte)
                        .unflatten(0, {shape_.heads, head_rows})
                        .narrow(1, shape_.nope, shape_.value)
                        .contiguous()
                        .view(scales.scalar_type());
    values.block_cols = w.kv_b_proj.block_cols;
    made_.push_back(values.scales);
    const auto factors = scales.to(at::kFloat)
                             .repeat_interleave(std::min<std::int64_t>(w.kv_b_proj.block_cols, shape_.kv_rank), 1)
                             .narrow(1, 0, shape_.kv_rank)
                             .unflatten(0, {shape_.heads, head_rows})
                             .narrow(1, 0, shape_.nope);
    keys = (keys.to(at::kFloat) * factors).to(at::kBFloat16);
  }
  out.expand_value = matrix(values, shape_.value, shape_.kv_rank, "kv_b_proj");
  auto transposed =
      at::zeros({shape_.heads, shape_.kv_rank, weight_stride(shape_.nope)}, keys.options().dtype(at::kBFloat16))
          .narrow(2, 0, shape_.nope);
  transposed.copy_(keys.transpose(1, 2));
  made_.push_back(transposed);
  out.absorb_query = matrix({transposed}, shape_.kv_rank, shape_.nope, "kv_b_proj's transposed keys");
  if (w.sink.defined()) out.sink = vector(w.sink, shape_.heads, "learnable_sink_param");
}

DeviceLayer Adopter::layer(const HeadConfig& config, const TensorLayer& w) const {
  const HeadShape& s = shape_;
  DeviceLayer out;
  out.enorm = vector(w.enorm, s.hidden, "enorm");
  out.hnorm = vector(w.hnorm, s.hidden, "hnorm");
  out.input_layernorm = vector(w.input_layernorm, s.hidden, "input_layernorm");
  out.post_attention_layernorm = vector(w.post_attention_layernorm, s.hidden, "post_attention_layernorm");
  out.final_layernorm = vector(w.final_layernorm, s.hidden, "final_layernorm");
  out.q_a_layernorm = vector(w.q_a_layernorm, s.q_rank, "q_a_layernorm");
  out.kv_a_layernorm = vector(w.kv_a_layernorm, s.kv_rank, "kv_a_layernorm");
  out.eh_proj = matrix(w.eh_proj, s.hidden, 2 * s.hidden, "eh_proj");
  out.q_a_proj = matrix(w.q_a_proj, s.q_rank, s.hidden, "q_a_proj");
  out.kv_a_proj = matrix(w.kv_a_proj, s.kv_rank + s.rope, s.hidden, "kv_a_proj");
  out.q_b_proj = matrix(w.q_b_proj, s.heads * s.query_dims(), s.q_rank, "q_b_proj");
  out.o_proj = matrix(w.o_proj, s.hidden, s.heads * s.value, "o_proj");
  if (config.gate != GateKind::none) {
    out.linear_gate =
        matrix(w.linear_gate, config.gate == GateKind::headwise ? s.heads : s.heads * s.value, s.hidden, "linear_gate");
  }
  attention(w, out);
  if (s.sparse()) {
    if (!w.indexer) throw input_error("the config has sparse attention, but the layer no indexer");
    out.index_query = matrix(w.indexer->wq_b, s.index_heads * s.index_dims, s.q_rank, "indexer.wq_b");
    out.index_key = matrix(w.indexer->wk, s.index_dims, s.hidden, "indexer.wk");
    out.index_weights = matrix(w.indexer->weights_proj, s.index_heads, s.hidden, "indexer.weights_proj");
    out.index_norm_weight = vector(w.indexer->k_norm_weight, s.index_dims, "indexer.k_norm.weight");
    out.index_norm_bias = vector(w.indexer->k_norm_bias, s.index_dims, "indexer.k_norm.bias");
  }
  if (s.experts > 0) {
    if (!w.experts) throw input_error("the config has experts, but the layer none");
    out.router = wide(w.router, s.experts, s.hidden, "router");
    out.expert_bias = vector(w.expert_bias, s.experts, "e_score_correction_bias");
    out.experts = mlp(*w.experts, s.inner, s.experts, "experts");
  }
  if (s.plain_inner > 0) {
    if (!w.plain) throw input_error("the config has a shared expert or a dense MLP, but the layer none");
    out.plain = mlp(*w.plain, s.plain_inner, 1, s.experts > 0 ? "shared_experts" : "mlp");
  }
  out.lm_head = wide(w.lm_head, s.vocabulary, s.hidden, "lm_head");
  return out;
}

}  // namespace

DeviceWeights adopt_weights(Stream stream, const HeadConfig& config, const TensorWeights& weights) {
  require_device();
  const c10::InferenceMode inference;
  const HeadShape shape = shape_of(config);
  struct Kept {
    TensorWeights given;
    std::vector<at::Tensor> made;
  };
  const auto kept = std::make_shared<Kept>();
  kept->given = weights;
  DeviceWeights out;
  out.embedding = bf16_rows_view(weights.embed_tokens, shape.vocabulary, shape.hidden, "embed_tokens");
  const Adopter adopter(stream, shape, kept->made);
  for (const auto& layer : weights.layers) out.layers.push_back(adopter.layer(config, layer));
  if (out.layers.empty()) throw input_error("the head has no MTP layer");
  synchronize(stream);
  out.storage = kept;
  return out;
}

DeviceInput adopt_input(const HeadConfig& config, const TensorInput& input, Stream stream) {
  if (input.cu_seqlens.empty()) throw input_error("cu_seqlens is empty");
  const std::int64_t tokens = input.cu_seqlens.back();
  const auto width = static_cast<std::int64_t>(config.hidden_size);
  DeviceInput out;
  out.cu_seqlens = input.cu_seqlens;
  out.produced_on = stream;
  out.positions = index_view(input.positions, tokens, "positions");
  out.hidden_states = bf16_rows_view(input.hidden_states, tokens, width, "hidden_states");
  if (input.inputs_embeds.defined()) {
    out.inputs_embeds = bf16_rows_view(input.inputs_embeds, tokens, width, "inputs_embeds");
  } else {
    out.ids = index_view(input.input_ids, tokens, "input_ids");
  }
  if (config.rope.type == "dynamic" && tokens > 0) out.longest = input.positions.max().item<std::int32_t>();
  return out;
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
