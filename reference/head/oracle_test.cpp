#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <tuple>

#include "golden/cases/forward_case.h"
#include "reference/head/reference_head.h"
#include "reference/head/stages/stage_inputs.h"
#include "reference/linear/linear.h"
#include "reference/math/quantise.h"
#include "reference/tensor/float_formats.h"

namespace mtpcheck {
namespace {

using golden::ForwardCase;
using golden::KeepingSink;
using golden::Tensors;
using ::testing::Combine;
using ::testing::Values;
using ::testing::ValuesIn;

const std::filesystem::path kForward = std::filesystem::path(MTPCHECK_GOLDEN_DIR) / "forward";

Conventions preset(const std::string& name) { return resolve_conventions({}, name, {}).values; }

Tensors run(const ForwardCase& from, const Conventions& conventions, const ReferenceOptions& options,
            std::size_t step = 0, const Selections* forced = nullptr) {
  KeepingSink sink;
  make_reference_head(from.config, from.weights, conventions, options)
      ->forward(from.input(step), {.step = step, .forced = forced}, sink);
  return sink.stages;
}

/// Largest |a − b|, infinite where an infinity or NaN has no equal on the other side.
double absolute_distance(const Tensor& a, const Tensor& b) {
  if (a.shape != b.shape) return std::numeric_limits<double>::infinity();
  const auto x = to_f64(a.view());
  const auto y = to_f64(b.view());
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i]) continue;
    const double difference = std::fabs(x[i] - y[i]);
    largest = difference >= 0 ? std::max(largest, difference) : std::numeric_limits<double>::infinity();
  }
  return largest;
}

std::size_t expect_recorded(const Tensors& ours, const Tensors& recorded, const std::string& dtype) {
  std::size_t compared = 0;
  for (const auto& [name, value] : ours) {
    const Tensor* const expected = golden::find_recorded(recorded, name, dtype);
    if (expected == nullptr) continue;
    ++compared;
    if (info(stage_key_from_name(name)->stage).kind != StageKind::values) {
      EXPECT_EQ(absolute_distance(value, *expected), 0) << name;
    } else if (dtype == "f64") {
      EXPECT_LE(absolute_distance(value, *expected), 1e-12) << name;
    } else {
      EXPECT_LE(golden::distance(value, *expected), 2e-6) << name;
    }
  }
  return compared;
}

class Oracle : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(Oracle, EveryRecordedStageAgrees) {
  const auto& [name, dialect] = GetParam();
  const auto from = golden::read_forward_case(kForward, name);
  const auto& recorded = dialect == "vllm" ? from.vllm : from.hf;
  const std::size_t steps = from.inputs.contains("step1.input_ids") ? 2 : 1;
  for (const std::string form : {"vllm", "transformers"}) {
    for (std::size_t step = 0; step < steps; ++step) {
      for (const auto precision : {Precision::f32, Precision::f64}) {
        const auto ours = run(from, preset(dialect), {.precision = precision, .rounding_preset = form}, step);
        EXPECT_GT(expect_recorded(ours, recorded, std::string(to_string(precision))), 1U);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Forward, Oracle,
                         Combine(ValuesIn(golden::forward_cases(kForward)), Values("vllm", "transformers")),
                         [](const auto& one) { return std::get<0>(one.param) + "_" + std::get<1>(one.param); });

/// Selections that were recorded, of one sequence or of several (STAGE.seq0, …).
Selections recorded_selections(const Tensors& recorded, const std::string& dtype) {
  Selections result;
  const auto rows_into = [](const Tensor& tensor, std::vector<std::vector<std::int32_t>>& rows) {
    const auto values = to_i64(tensor.view());
    for (std::size_t at = 0; at < values.size(); at += tensor.shape[1]) {
      rows.emplace_back(values.begin() + static_cast<std::ptrdiff_t>(at),
                        values.begin() + static_cast<std::ptrdiff_t>(at + tensor.shape[1]));
    }
  };
  const std::string keys = dtype + ".topk_indices";
  if (recorded.contains(keys)) rows_into(recorded.at(keys), result.topk_indices);
  for (std::size_t s = 0; recorded.contains(keys + ".seq" + std::to_string(s)); ++s) {
    rows_into(recorded.at(keys + ".seq" + std::to_string(s)), result.topk_indices);
  }
  rows_into(recorded.at(dtype + ".topk_experts"), result.topk_experts);
  return result;
}

/// Root mean square of a − b.
double rms_distance(const Tensor& a, const Tensor& b) {
  const auto x = to_f64(a.view());
  const auto y = to_f64(b.view());
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += (x[i] - y[i]) * (x[i] - y[i]);
  return std::sqrt(sum / static_cast<double>(x.size()));
}

// The policy of docs/tolerance.md, applied to somebody else's bf16: twice what rounding costs the reference.
TEST(ReferenceHead, TheOraclesBfloat16IsWithinTheAllowance) {
  for (const auto& name : golden::forward_cases(kForward)) {
    const auto from = golden::read_forward_case(kForward, name);
    for (const std::string dialect : {"vllm", "transformers"}) {
      const auto& recorded = dialect == "vllm" ? from.vllm : from.hf;
      if (!recorded.contains("bf16.topk_experts")) continue;  // medium keeps a shorter list of this dialect
      const auto forced = recorded_selections(recorded, "bf16");
      const auto truth = run(from, preset(dialect), {.precision = Precision::f64}, 0, &forced);
      const auto rounded =
          run(from, preset(dialect), {.precision = Precision::bf16, .rounding_preset = "transformers"}, 0, &forced);
      for (const std::string stage : {"residual1", "residual2", "final_layernorm", "logits"}) {
        const double error = rms_distance(recorded.at("bf16." + stage), truth.at(stage));
        const double allowed = 2 * rms_distance(rounded.at(stage), truth.at(stage));
        EXPECT_LE(error, allowed) << name << " " << dialect << " " << stage;
        EXPECT_GT(error, allowed / 8) << "a rounded run that rounds too much: " << name << " " << stage;
      }
      EXPECT_EQ(rounded.at("residual1").dtype, Dtype::bf16);
      EXPECT_EQ(rounded.at("logits").dtype, Dtype::f32);
    }
  }
}

// A value on the edge between two codes may fall to either side, by the order of a float32 sum. The oracle's sums are
// another library's: a few codes in ten thousand may differ, each by one step, and only their rows' scores with them.
TEST(ReferenceHead, QuantisedIndexerAgrees) {
  const auto from = golden::read_forward_case(kForward, "fp8_indexer");
  auto conventions = preset("vllm");
  conventions.indexer_fp8 = true;
  const auto ours = run(from, conventions, {.precision = Precision::f32});
  const auto expected = [&](const std::string& name) { return from.vllm.at("fp8_indexer." + name); };
  EXPECT_EQ(golden::distance(ours.at("indexer_k"), expected("k")), 0);
  const auto q = to_f32(ours.at("indexer_q").view());
  const auto q_expected = expected("q");
  const std::size_t per_row = from.config.index_n_heads * from.config.index_head_dim;
  std::set<std::size_t> rows_with_another_code;
  for (std::size_t i = 0; i < q.size(); ++i) {
    const int code = f32_to_e4m3(q[i]);
    const int expected_code = std::to_integer<int>(q_expected.bytes[i]);
    if (code == expected_code) continue;
    EXPECT_LE(std::abs(code - expected_code), 1) << i;
    rows_with_another_code.insert(i / per_row);
  }
  EXPECT_LE(rows_with_another_code.size(), 2U);
  const auto scores = to_f64(ours.at("indexer_scores").view());
  const auto scores_expected = to_f64(expected("scores").view());
  const std::size_t keys = expected("scores").shape[1];
  double largest = 0;
  for (const double score : scores_expected)
    largest = std::isfinite(score) ? std::max(largest, std::fabs(score)) : largest;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (rows_with_another_code.contains(i / keys) || scores[i] == scores_expected[i]) continue;
    EXPECT_LE(std::fabs(scores[i] - scores_expected[i]), 2e-6 * largest) << i;
  }
  EXPECT_EQ(golden::distance(ours.at("topk_indices"), expected("topk_indices")), 0);
  for (const std::string stage : {"attn_out", "o_proj", "residual1", "final_layernorm", "logits"}) {
    EXPECT_LE(golden::distance(ours.at(stage), expected(stage)), 2e-6) << stage;
  }
}

TEST(ReferenceHead, ReplayOnItsOwnStagesGivesTheSameBits) {
  for (const std::string name : {"topk_below_seq", "packed", "headwise_gate", "fp8_indexer"}) {
    const auto from = golden::read_forward_case(kForward, name);
    for (const auto precision : {Precision::f64, Precision::f32, Precision::bf16}) {
      auto conventions = preset("vllm");
      conventions.indexer_fp8 = name == "fp8_indexer";
      // A fused norm reads its sum before it is stored, and the probabilities of flash attention are undivided: neither
      // is recorded.
      const std::string plan = precision == Precision::bf16 ? "transformers" : "vllm";
      const auto head = make_reference_head(from.config, from.weights, conventions,
                                            {.precision = precision, .rounding_preset = plan});
      KeepingSink sink;
      head->forward(from.input(), {}, sink);
      const RecordedStages recorded = [&](const StageKey& key) -> std::optional<TensorView> {
        const auto found = sink.stages.find(to_string(key));
        if (found == sink.stages.end()) return std::nullopt;
        return found->second.view(found->first);
      };
      for (const Stage stage : stages_of(from.config)) {
        const auto again = head->replay(stage, from.input(), recorded, {});
        ASSERT_FALSE(again.empty()) << mtpcheck::name(stage);
        for (const auto& [key, value] : again) {
          const auto& first = sink.stages.at(to_string(key));
          EXPECT_EQ(value.dtype, first.dtype);
          const double limit = stage == Stage::attn_out ? (precision == Precision::f64   ? 1e-14
                                                           : precision == Precision::f32 ? 1e-6
                                                                                         : 0.02)
                                                        : 0;
          EXPECT_LE(golden::distance(value, first), limit) << name << " " << to_string(key);
        }
      }
    }
  }
}

TEST(ReferenceHead, ActivationsAreQuantisedWhereWeightsAre) {
  auto from = golden::read_forward_case(kForward, "topk_below_seq");
  auto& q_a = from.weights.layers[0].q_a_proj;
  std::vector<std::uint8_t> codes(q_a.rows * q_a.cols);
  for (std::size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<std::uint8_t>(0x28 + (i * 7) % 16 + (i % 3 == 0 ? 0x80 : 0));
  q_a.dtype = Dtype::f8_e4m3;
  q_a.data = reinterpret_cast<const std::byte*>(codes.data());
  const auto plain = run(from, preset("vllm"), {.precision = Precision::f64});
  const auto values = to_f64(plain.at("input_layernorm").view());
  Rows<double> x(16, 64);
  std::copy(values.begin(), values.end(), x.data());
  using enum ActivationQuantisation;
  for (const auto& [how, group, format] : {std::tuple(token_group_128, std::size_t{128}, ScaleFormat::float32),
                                           std::tuple(mx_32, std::size_t{32}, ScaleFormat::power_of_two),
                                           std::tuple(per_token, std::size_t{64}, ScaleFormat::float32)}) {
    const auto quantised = run(from, preset("vllm"), {.precision = Precision::f64, .activations = how});
    const Rows<double> expected = dequantised(quantise(x, group, format), group) * decode_all<double>(q_a).transpose();
    const auto ours = to_f64(quantised.at("q_a").view());
    for (std::size_t i = 0; i < ours.size(); ++i) ASSERT_NEAR(ours[i], expected.data()[i], 1e-12);
    EXPECT_GT(golden::distance(quantised.at("q_a"), plain.at("q_a")), 1e-3) << "quantising must show";
    EXPECT_EQ(golden::distance(quantised.at("kv_a"), plain.at("kv_a")), 0) << "its weights are BF16";
  }
}

TEST(ReferenceHead, ReplaySaysWhenAnInputWasNotRecorded) {
  const auto from = golden::read_forward_case(kForward, "topk_below_seq");
  const auto head = make_reference_head(from.config, from.weights, preset("vllm"));
  const RecordedStages nothing = [](const StageKey&) { return std::nullopt; };
  EXPECT_TRUE(head->replay(Stage::q, from.input(), nothing, {}).empty());
  EXPECT_EQ(head->replay(Stage::embed_masked, from.input(), nothing, {}).size(), 1U);
}

}  // namespace
}  // namespace mtpcheck
