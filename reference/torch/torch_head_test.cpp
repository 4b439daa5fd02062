#include "reference/torch/torch_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "golden/cases/forward_case.h"
#include "reference/tensor/error.h"
#include "reference/tensor/float_formats.h"

namespace mtpcheck {
namespace {

using golden::ForwardCase;
using golden::KeepingSink;
using golden::Tensors;
using ::testing::Combine;
using ::testing::HasSubstr;
using ::testing::Values;
using ::testing::ValuesIn;

const std::string kForward = std::string(MTPCHECK_GOLDEN_DIR) + "/forward";

Conventions preset(const std::string& name) { return resolve_conventions({}, name, {}).values; }

std::unique_ptr<Head> head_of(const ForwardCase& from, const Conventions& conventions, Dtype dtype) {
  return make_torch_head(from.config, from.weights, conventions, dtype, 1);
}

Tensors run(const ForwardCase& from, const Conventions& conventions, Dtype dtype, std::size_t step = 0) {
  KeepingSink sink;
  head_of(from, conventions, dtype)->forward(from.input(step), {.step = step}, sink);
  return sink.stages;
}

/// Compares every stage that was recorded under "DTYPE." with ours, and says how many there were.
std::size_t expect_recorded(const Tensors& ours, const Tensors& recorded, const std::string& dtype, double limit) {
  std::size_t compared = 0;
  for (const auto& [name, value] : ours) {
    const Tensor* const expected = golden::find_recorded(recorded, name, dtype);
    if (expected == nullptr) continue;
    const bool selection = info(stage_key_from_name(name)->stage).kind != StageKind::values;
    EXPECT_LE(golden::distance(value, *expected), selection ? 0 : limit) << name;
    ++compared;
  }
  return compared;
}

class Oracle : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  const std::string& case_name() const { return std::get<0>(GetParam()); }
  const std::string& dialect() const { return std::get<1>(GetParam()); }
  const Tensors& recorded(const ForwardCase& from) const { return dialect() == "vllm" ? from.vllm : from.hf; }
};

TEST_P(Oracle, Float32AndFloat64StagesAgree) {
  const auto from = golden::read_forward_case(kForward, case_name());
  const auto conventions = preset(dialect());
  const std::size_t steps = from.inputs.contains("step1.input_ids") ? 2 : 1;
  for (std::size_t step = 0; step < steps; ++step) {
    EXPECT_GT(expect_recorded(run(from, conventions, Dtype::f32, step), recorded(from), "f32", 2e-6), 1U);
    EXPECT_GT(expect_recorded(run(from, conventions, Dtype::f64, step), recorded(from), "f64", 1e-12), 1U);
  }
}

INSTANTIATE_TEST_SUITE_P(Forward, Oracle,
                         Combine(ValuesIn(golden::forward_cases(kForward)), Values("vllm", "transformers")),
                         [](const auto& one) { return std::get<0>(one.param) + "_" + std::get<1>(one.param); });

/// Selections that the oracle's bf16 run made, so that later stages can be compared.
Selections recorded_selections(const Tensors& recorded, const std::string& dtype) {
  Selections result;
  const auto rows_into = [](const Tensor& tensor, std::vector<std::vector<std::int32_t>>& rows) {
    const auto values = to_i64(tensor.view());
    const auto width = static_cast<std::ptrdiff_t>(tensor.shape[1]);
    for (auto at = values.begin(); at != values.end(); at += width) {
      std::vector<std::int32_t> row;
      std::copy_if(at, at + width, std::back_inserter(row), [](std::int64_t index) { return index >= 0; });
      rows.push_back(row);
    }
  };
  rows_into(recorded.at(dtype + ".topk_indices"), result.topk_indices);
  rows_into(recorded.at(dtype + ".topk_experts"), result.topk_experts);
  return result;
}

TEST(TorchHead, Bfloat16IsWithinItsNoiseOfTheOracle) {
  for (const std::string name : {"topk_below_seq", "seq_below_topk", "sinks", "swiglu_clamp", "medium"}) {
    const auto from = golden::read_forward_case(kForward, name);
    const auto forced = recorded_selections(from.vllm, "bf16");
    KeepingSink sink;
    head_of(from, preset("vllm"), Dtype::bf16)->forward(from.input(), {.forced = &forced}, sink);
    for (const std::string stage : {"residual1", "residual2", "final_layernorm", "logits"}) {
      EXPECT_LE(golden::distance(sink.stages.at(stage), from.vllm.at("bf16." + stage)), 0.04) << name << " " << stage;
    }
    EXPECT_EQ(sink.stages.at("residual1").dtype, Dtype::bf16);
    EXPECT_EQ(sink.stages.at("logits").dtype, Dtype::f32);
  }
}

std::size_t differing(const Tensor& a, const Tensor& b) {
  const auto x = to_f64(a.view());
  const auto y = to_f64(b.view());
  std::size_t count = x.size() == y.size() ? 0 : x.size();
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) count += x[i] == y[i] ? 0 : 1;
  return count;
}

TEST(TorchHead, QuantisedIndexerAgrees) {
  const auto from = golden::read_forward_case(kForward, "fp8_indexer");
  auto conventions = preset("vllm");
  conventions.indexer_fp8 = true;
  const auto ours = run(from, conventions, Dtype::f32);
  // A value on the boundary of two E4M3 numbers falls to either side, as the host's sums are ordered.
  EXPECT_LE(differing(ours.at("indexer_q"), from.vllm.at("fp8_indexer.q")), 2U);
  EXPECT_LE(differing(ours.at("indexer_k"), from.vllm.at("fp8_indexer.k")), 2U);
  EXPECT_LE(golden::distance(ours.at("indexer_scores"), from.vllm.at("fp8_indexer.scores")), 1e-4);
  EXPECT_EQ(golden::distance(ours.at("topk_indices"), from.vllm.at("fp8_indexer.topk_indices")), 0);
  EXPECT_LE(golden::distance(ours.at("logits"), from.vllm.at("fp8_indexer.logits")), 2e-6);
}

TEST(TorchHead, StepsWithARollbackGiveWhatOnePrefillGives) {
  const auto from = golden::read_forward_case(kForward, "topk_below_seq");
  const auto input = from.input();
  const auto whole = run(from, preset("vllm"), Dtype::f64);
  const auto head = head_of(from, preset("vllm"), Dtype::f64);
  KeepingSink sink;
  head->forward(rows_between(input, 0, 7), {}, sink);
  head->forward(rows_between(input, 3, 6), {}, sink);  // rejected below
  head->rollback(0, 7);
  for (std::size_t row = 7; row < input.tokens(); ++row) {
    head->forward(rows_between(input, row, row + 1), {}, sink);
    const auto vocabulary = from.config.vocab_size;
    const auto all = to_f64(whole.at("logits").view());
    const auto one = to_f64(sink.stages.at("logits").view());
    for (std::size_t i = 0; i < vocabulary; ++i) EXPECT_NEAR(one[i], all[row * vocabulary + i], 1e-12);
    EXPECT_EQ(sink.stages.at("indexer_scores").shape, (Shape{1, row + 1}));
  }
  EXPECT_THROW(head->rollback(0, input.tokens() + 1), Error);
  head->reset();
  head->forward(input, {}, sink);
  EXPECT_EQ(sink.stages.at("logits").bytes, whole.at("logits").bytes);
}

TEST(TorchHead, ForcedSelectionsAreUsed) {
  const auto from = golden::read_forward_case(kForward, "topk_below_seq");
  const auto rows = from.input().tokens();
  Selections forced;
  for (std::size_t row = 0; row < rows; ++row) {
    forced.topk_indices.push_back({static_cast<std::int32_t>(row)});
    forced.topk_experts.push_back({3, 6});
  }
  KeepingSink sink;
  head_of(from, preset("vllm"), Dtype::f32)->forward(from.input(), {.forced = &forced}, sink);
  const auto probs = to_f64(sink.stages.at("attn_probs").view());
  const auto experts = to_i64(sink.stages.at("topk_experts").view());
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t key = 0; key < rows; ++key) {
      EXPECT_EQ(probs[row * rows + key] > 0, key == row) << row << " " << key;
    }
    EXPECT_EQ(experts[2 * row], 3);
    EXPECT_EQ(experts[2 * row + 1], 6);
  }
}

TEST(TorchHead, GroupRoutingKeepsToTheBestGroups) {
  auto from = golden::read_forward_case(kForward, "topk_below_seq");
  from.config.n_group = 4;
  from.config.topk_group = 1;
  const auto free = run(from, preset("vllm"), Dtype::f32);
  const auto grouped = run(from, preset("transformers"), Dtype::f32);
  const auto in_one_group = [&](const Tensors& stages) {
    const auto experts = to_i64(stages.at("topk_experts").view());
    for (std::size_t row = 0; row < experts.size(); row += 2) {
      if (experts[row] / 2 != experts[row + 1] / 2) return false;
    }
    return true;
  };
  EXPECT_TRUE(in_one_group(grouped));
  EXPECT_FALSE(in_one_group(free));
}

TEST(TorchHead, PositionZeroMaskIsAConvention) {
  const auto from = golden::read_forward_case(kForward, "single_token");
  const auto masked = to_f64(run(from, preset("vllm"), Dtype::f32).at("embed_masked").view());
  const auto whole = to_f64(run(from, preset("sglang"), Dtype::f32).at("embed_masked").view());
  EXPECT_TRUE(std::ranges::all_of(masked, [](double x) { return x == 0; }));
  EXPECT_FALSE(std::ranges::all_of(whole, [](double x) { return x == 0; }));
}

/// eh_proj in E4M3, its rows a slice that begins inside a scale block, against the same matrix decoded beforehand.
TEST(TorchHead, QuantisedWeightsAreDecodedBlockByBlock) {
  auto from = golden::read_forward_case(kForward, "topk_below_seq");
  auto& eh_proj = from.weights.layers[0].eh_proj;  // [64, 128]
  std::vector<std::uint8_t> codes(eh_proj.rows * eh_proj.cols);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>((i * 37) % 120);
  const std::vector<float> scales{0.5F,   0.25F, 2.0F,
                                  0.125F, 1.0F,  4.0F};  // 2 × 3 cells, the last column beyond the matrix
  std::vector<float> values(codes.size());
  for (std::size_t row = 0; row < eh_proj.rows; ++row) {
    for (std::size_t col = 0; col < eh_proj.cols; ++col) {
      const auto cell = (row + 16) / 48 * 3 + col / 64;
      values[row * eh_proj.cols + col] = e4m3_to_f32(codes[row * eh_proj.cols + col]) * scales[cell];
    }
  }
  auto plain = from;
  plain.weights.layers[0].eh_proj.dtype = Dtype::f32;
  plain.weights.layers[0].eh_proj.data = reinterpret_cast<const std::byte*>(values.data());
  eh_proj.dtype = Dtype::f8_e4m3;
  eh_proj.data = reinterpret_cast<const std::byte*>(codes.data());
  eh_proj.scales = {.dtype = Dtype::f32,
                    .data = reinterpret_cast<const std::byte*>(scales.data()),
                    .block_rows = 48,
                    .block_cols = 64,
                    .stride = 3,
                    .first_row = 16};
  const auto quantised = run(from, preset("vllm"), Dtype::f32);
  EXPECT_EQ(quantised.at("eh_proj").bytes, run(plain, preset("vllm"), Dtype::f32).at("eh_proj").bytes);
}

TEST(TorchHead, UnalignedWeightsAreRead) {
  auto from = golden::read_forward_case(kForward, "topk_below_seq");
  const auto aligned = run(from, preset("vllm"), Dtype::f32);
  auto& o_proj = from.weights.layers[0].o_proj;
  std::vector<std::byte> moved(o_proj.rows * o_proj.cols * 2 + 1);
  std::copy_n(o_proj.data, moved.size() - 1, moved.begin() + 1);
  o_proj.data = moved.data() + 1;
  EXPECT_EQ(run(from, preset("vllm"), Dtype::f32).at("logits").bytes, aligned.at("logits").bytes);
}

TEST(TorchHead, BadInputsAreRefusedWithTheReason) {
  const auto from = golden::read_forward_case(kForward, "packed");
  const auto head = head_of(from, preset("vllm"), Dtype::f32);
  const auto refused = [&](const HeadInput& input) {
    KeepingSink sink;
    try {
      head->forward(input, {}, sink);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  auto input = from.input();
  input.input_ids[2] = 97;
  EXPECT_THAT(refused(input), HasSubstr("token id 97"));
  input = from.input();
  input.positions[1] = -1;
  EXPECT_THAT(refused(input), HasSubstr("negative"));
  input = from.input();
  input.hidden_states.shape[1] = 32;
  EXPECT_THAT(refused(input), HasSubstr("hidden_states is [21, 32]"));
  input = from.input();
  input.cu_seqlens.back() = 20;
  EXPECT_THAT(refused(input), HasSubstr("cu_seqlens"));
  head->reset();
  KeepingSink sink;
  head->forward(rows_between(from.input(), 0, 4), {}, sink);
  EXPECT_THAT(refused(from.input()), HasSubstr("3 sequences"));
  EXPECT_THROW(make_torch_head(from.config, from.weights, {}, Dtype::i8), Error);
}

}  // namespace
}  // namespace mtpcheck
