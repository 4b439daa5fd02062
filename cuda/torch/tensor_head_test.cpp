// The emulated head on LibTorch's tensors: where its weights and rows are, and what it computes from them.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cuda/head/cuda_head.h"
#include "cuda/kernels/numeric/rows.h"
#include "cuda/torch/tensor_weights.h"
#include "golden/cases/bf16_policy.h"
#include "golden/cases/forward_case.h"
#include "reference/tensor/error.h"
#include "reference/torch/torch_head.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {
namespace {

using golden::ForwardCase;
using golden::KeepingSink;

ForwardCase read_case(const std::string& name) {
  return golden::read_forward_case(std::filesystem::path(MTPCHECK_GOLDEN_DIR) / "forward", name);
}

enum class Storage { bf16, fp8_block, mxfp8 };

/// A case's weights as tensors, and as HeadWeights that point into the same tensors.
struct Both {
  TensorWeights tensors;
  HeadWeights head;
};

at::Tensor vector_of(const Vector& values) { return at::tensor(values, at::TensorOptions(at::kDouble)); }

at::Tensor copied(const Matrix& m) {
  return at::from_blob(const_cast<std::byte*>(m.data),  // NOLINT(cppcoreguidelines-pro-type-const-cast): it is cloned
                       {static_cast<std::int64_t>(m.rows), static_cast<std::int64_t>(m.cols)},
                       at::TensorOptions(at::kBFloat16))
      .clone();
}

TensorMatrix quantised(const at::Tensor& values, Storage storage) {
  if (storage == Storage::bf16) return {values};
  const bool mx = storage == Storage::mxfp8;
  const auto codes = (values.to(at::kFloat) * 16).to(at::kFloat8_e4m3fn);
  auto shape = values.sizes().vec();
  shape.back() = mx ? (shape.back() + 31) / 32 : (shape.back() + 127) / 128;
  if (!mx) shape[shape.size() - 2] = (shape[shape.size() - 2] + 127) / 128;
  auto scales = at::full(shape, 1.0 / 16, at::TensorOptions(at::kFloat));
  scales.select(-1, 0).mul_(2);
  return {codes, mx ? scales.to(at::kFloat8_e8m0fnu) : scales, mx ? 1 : 128, mx ? 32 : 128};
}

/// Matrix `index` of a stack, or the matrix itself.
Matrix pointing_to(const TensorMatrix& m, std::int64_t index = 0) {
  const auto data = m.data.dim() == 3 ? m.data[index] : m.data;
  Matrix out;
  out.rows = static_cast<std::size_t>(data.size(0));
  out.cols = static_cast<std::size_t>(data.size(1));
  out.dtype = data.scalar_type() == at::kBFloat16 ? Dtype::bf16 : Dtype::f8_e4m3;
  out.data = static_cast<const std::byte*>(data.const_data_ptr());
  if (m.scales.defined()) {
    const auto scales = m.scales.dim() == 3 ? m.scales[index] : m.scales;
    out.scales = {scales.scalar_type() == at::kFloat ? Dtype::f32 : Dtype::f8_e8m0,
                  static_cast<const std::byte*>(scales.const_data_ptr()),
                  static_cast<std::size_t>(m.block_rows),
                  static_cast<std::size_t>(m.block_cols),
                  static_cast<std::size_t>(scales.stride(0)),
                  0};
  }
  return out;
}

TensorMlp stacked(const std::vector<MlpWeights>& experts, Storage storage) {
  std::vector<at::Tensor> gate_up;
  std::vector<at::Tensor> down;
  for (const auto& e : experts) {
    gate_up.push_back(at::cat({copied(e.gate), copied(e.up)}, 0));
    down.push_back(copied(e.down));
  }
  const auto fused = at::stack(gate_up);
  const std::int64_t inner = fused.size(1) / 2;
  if (storage == Storage::bf16)
    return {{fused.narrow(1, 0, inner)}, {fused.narrow(1, inner, inner)}, {at::stack(down)}};
  return {quantised(fused.narrow(1, 0, inner), storage), quantised(fused.narrow(1, inner, inner), storage),
          quantised(at::stack(down), storage)};
}

Both as_tensors(const ForwardCase& from, Storage storage) {
  Both out;
  out.head = from.weights;
  LayerWeights& w = out.head.layers[0];
  TensorLayer t;
  const auto take = [&](Matrix& m, Storage how) {
    const TensorMatrix tensor = quantised(copied(m), how);
    m = pointing_to(tensor);
    return tensor;
  };
  t.enorm = vector_of(w.enorm);
  t.hnorm = vector_of(w.hnorm);
  t.final_layernorm = vector_of(w.final_layernorm);
  t.input_layernorm = vector_of(w.input_layernorm);
  t.post_attention_layernorm = vector_of(w.post_attention_layernorm);
  t.q_a_layernorm = vector_of(w.q_a_layernorm);
  t.kv_a_layernorm = vector_of(w.kv_a_layernorm);
  t.sink = vector_of(w.sink);
  t.eh_proj = take(w.eh_proj, Storage::bf16);
  t.q_a_proj = take(w.q_a_proj, storage);
  t.q_b_proj = take(w.q_b_proj, storage);
  t.kv_a_proj = take(w.kv_a_proj, storage);
  t.kv_b_proj = take(w.kv_b_proj, storage);
  t.o_proj = take(w.o_proj, storage);
  t.linear_gate = take(w.linear_gate, storage);
  t.indexer = TensorIndexer{take(w.indexer->wq_b, storage), take(w.indexer->wk, Storage::bf16),
                            take(w.indexer->weights_proj, Storage::bf16), vector_of(w.indexer->k_norm_weight),
                            vector_of(w.indexer->k_norm_bias)};
  t.router = take(w.moe->router, Storage::bf16).data;
  t.expert_bias = vector_of(w.moe->expert_bias);
  t.experts = stacked(w.moe->experts, storage);
  for (std::size_t e = 0; e < w.moe->experts.size(); ++e) {
    const auto index = static_cast<std::int64_t>(e);
    w.moe->experts[e] = {pointing_to(t.experts->gate, index), pointing_to(t.experts->up, index),
                         pointing_to(t.experts->down, index)};
  }
  auto& shared = *w.moe->shared;
  t.plain = TensorMlp{take(shared.gate, storage), take(shared.up, storage), take(shared.down, storage)};
  t.lm_head = take(w.lm_head, Storage::bf16).data;
  out.tensors.embed_tokens = take(out.head.embed_tokens, Storage::bf16).data;
  out.tensors.layers = {t};
  return out;
}

TensorInput input_of(const HeadInput& input) {
  return {at::tensor(input.input_ids, at::TensorOptions(at::kInt)),
          at::tensor(input.positions, at::TensorOptions(at::kInt)),
          at::tensor(to_f32(input.hidden_states.view()), at::TensorOptions(at::kFloat))
              .view({static_cast<std::int64_t>(input.tokens()), -1})
              .to(at::kBFloat16),
          {},
          input.cu_seqlens};
}

Conventions vllm() { return resolve_conventions({}, "vllm", {}).values; }

golden::Tensors stages_on_tensors(const ForwardCase& from, const TensorWeights& weights, const TensorInput& input,
                                  const ForwardOptions& options = {}) {
  CudaHead head(from.config, adopt_weights(nullptr, from.config, weights), vllm());
  KeepingSink sink;
  head.forward(adopt_input(from.config, input, nullptr), options, sink);
  return sink.stages;
}

TEST(TensorHead, WeightsAndRowsAreTheTensorsThemselves) {
  const auto from = read_case("packed");
  const TensorWeights given = as_tensors(from, Storage::bf16).tensors;
  const TensorLayer& t = given.layers[0];
  const DeviceWeights adopted = adopt_weights(nullptr, from.config, given);
  const DeviceLayer& layer = adopted.layers[0];
  EXPECT_EQ(static_cast<const void*>(adopted.embedding), given.embed_tokens.data_ptr());
  EXPECT_TRUE(adopted.embedding_bytes.empty());
  const std::pair<const DeviceMatrix*, at::Tensor> matrices[] = {{&layer.eh_proj, t.eh_proj.data},
                                                                 {&layer.q_a_proj, t.q_a_proj.data},
                                                                 {&layer.q_b_proj, t.q_b_proj.data},
                                                                 {&layer.kv_a_proj, t.kv_a_proj.data},
                                                                 {&layer.o_proj, t.o_proj.data},
                                                                 {&*layer.linear_gate, t.linear_gate.data},
                                                                 {&*layer.index_query, t.indexer->wq_b.data},
                                                                 {&*layer.index_key, t.indexer->wk.data},
                                                                 {&*layer.index_weights, t.indexer->weights_proj.data},
                                                                 {&*layer.router->narrow, t.router},
                                                                 {&layer.experts->gate, t.experts->gate.data},
                                                                 {&layer.experts->up, t.experts->up.data},
                                                                 {&layer.experts->down, t.experts->down.data},
                                                                 {&layer.plain->gate, t.plain->gate.data},
                                                                 {&layer.plain->up, t.plain->up.data},
                                                                 {&layer.plain->down, t.plain->down.data},
                                                                 {&*layer.lm_head.narrow, t.lm_head}};
  for (const auto& [matrix, tensor] : matrices) {
    EXPECT_EQ(matrix->view.data, tensor.data_ptr());
    EXPECT_TRUE(matrix->data.empty());
    EXPECT_TRUE(matrix->scales.empty());
  }
  // The value half of the first head.
  const auto nope = static_cast<std::int64_t>(from.config.qk_nope_head_dim);
  EXPECT_EQ(layer.expand_value.view.data, t.kv_b_proj.data[nope].data_ptr());

  const TensorInput input = input_of(from.input());
  const DeviceInput rows = adopt_input(from.config, input, nullptr);
  EXPECT_EQ(static_cast<const void*>(rows.ids), input.input_ids.data_ptr());
  EXPECT_EQ(static_cast<const void*>(rows.positions), input.positions.data_ptr());
  EXPECT_EQ(static_cast<const void*>(rows.hidden_states), input.hidden_states.data_ptr());
  EXPECT_EQ(rows.inputs_embeds, nullptr);
}

TEST(TensorHead, ComputesWhatTheHeadWithUploadedWeightsDoes) {
  for (const std::string name : {"packed", "topk_below_seq"}) {
    for (const Storage storage : {Storage::bf16, Storage::fp8_block, Storage::mxfp8}) {
      const auto from = read_case(name);
      const Both both = as_tensors(from, storage);
      KeepingSink uploaded;
      CudaHead(from.config, both.head, vllm()).forward(from.input(), {}, uploaded);
      const auto adopted = stages_on_tensors(from, both.tensors, input_of(from.input()));
      ASSERT_EQ(adopted.size(), uploaded.stages.size());
      for (const auto& [stage, value] : uploaded.stages) EXPECT_EQ(adopted.at(stage).bytes, value.bytes) << stage;
    }
  }
}

TEST(TensorHead, AgreesWithTheTorchHeadStageByStage) {
  for (const std::string name : {"packed", "topk_below_seq"}) {
    for (const Storage storage : {Storage::bf16, Storage::fp8_block, Storage::mxfp8}) {
      const auto from = read_case(name);
      const Both both = as_tensors(from, storage);
      const auto ours = stages_on_tensors(from, both.tensors, input_of(from.input()));
      const Selections forced = golden::selections_of(ours, from.input().sequences());
      const auto torch = [&](Dtype dtype) {
        KeepingSink sink;
        make_torch_head(from.config, both.head, vllm(), dtype, 1)->forward(from.input(), {.forced = &forced}, sink);
        return sink.stages;
      };
      const auto truth = torch(Dtype::f64);
      EXPECT_EQ(ours.size(), truth.size());
      EXPECT_THAT(golden::beyond_policy(ours, truth, torch(Dtype::bf16)), ::testing::IsEmpty()) << name;
    }
  }
}

TEST(TensorHead, SeesWhatIsWrittenIntoTheTensorsLater) {
  const auto from = read_case("topk_below_seq");
  const TensorWeights given = as_tensors(from, Storage::bf16).tensors;
  const TensorInput input = input_of(from.input());
  CudaHead head(from.config, adopt_weights(nullptr, from.config, given), vllm());
  const auto logits = [&] {
    KeepingSink sink;
    head.reset();
    head.forward(adopt_input(from.config, input, nullptr), {}, sink);
    return to_f64(sink.stages.at("logits").view());
  };
  auto before = logits();
  given.layers[0].lm_head.mul_(2);
  for (double& value : before) value *= 2;
  EXPECT_EQ(logits(), before);
  input.hidden_states.zero_();
  EXPECT_NE(logits(), before);
}

TEST(TensorHead, EmbeddingsAreTakenInPlaceOfIds) {
  const auto from = read_case("topk_below_seq");
  const TensorWeights given = as_tensors(from, Storage::bf16).tensors;
  TensorInput input = input_of(from.input());
  const auto by_ids = stages_on_tensors(from, given, input);
  input.inputs_embeds = given.embed_tokens.index_select(0, input.input_ids);
  input.input_ids = at::Tensor();
  EXPECT_EQ(stages_on_tensors(from, given, input).at("logits").bytes, by_ids.at("logits").bytes);
}

TEST(TensorHead, NamesWhatDoesNotFitTheConfig) {
  const auto from = read_case("topk_below_seq");
  const auto refusal = [&](auto change) -> std::string {
    TensorWeights given = as_tensors(from, Storage::bf16).tensors;
    change(given.layers[0]);
    try {
      adopt_weights(nullptr, from.config, given);
    } catch (const Error& error) {
      return error.what();
    }
    return "(accepted)";
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal([](TensorLayer& t) { t.o_proj.data = t.o_proj.data.narrow(0, 0, 32); }),
              HasSubstr("o_proj is 32 x 64, expected 64 x 64"));
  EXPECT_THAT(refusal([](TensorLayer& t) { t.enorm = t.enorm.narrow(0, 0, 3); }),
              HasSubstr("enorm has 3 entries, expected 64"));
  EXPECT_THAT(refusal([](TensorLayer& t) { t.experts->down.data = t.experts->down.data.narrow(0, 0, 7); }),
              HasSubstr("experts has 7 experts, expected 8"));
  EXPECT_THAT(refusal([](TensorLayer& t) { t.indexer.reset(); }), HasSubstr("the layer no indexer"));
  EXPECT_THAT(refusal([](TensorLayer& t) { t.experts->up = quantised(t.experts->up.data, Storage::mxfp8); }),
              HasSubstr("different formats"));
  TensorInput input = input_of(from.input());
  input.cu_seqlens = {0, 3};
  EXPECT_THROW(adopt_input(from.config, input, nullptr), Error);
}

}  // namespace
}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
