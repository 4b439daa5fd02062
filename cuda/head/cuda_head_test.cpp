#include "cuda/head/cuda_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "golden/cases/bf16_policy.h"
#include "golden/cases/forward_case.h"
#include "reference/head/reference_head.h"
#include "reference/head/stages/stage_inputs.h"
#include "reference/model/conventions.h"
#include "reference/tensor/error.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {
namespace {

using golden::ForwardCase;
using golden::KeepingSink;
using golden::Tensors;

const std::filesystem::path kForward = std::filesystem::path(MTPCHECK_GOLDEN_DIR) / "forward";

Conventions preset(const std::string& name) { return resolve_conventions({}, name, {}).values; }

void check_case(const ForwardCase& from, const Conventions& conventions, std::size_t step, const std::string& what) {
  CudaHead head(from.config, from.weights, conventions);
  KeepingSink ours;
  const HeadInput input = from.input(step);
  head.forward(input, {}, ours);
  EXPECT_EQ(ours.stages.size(), [&] {
    KeepingSink all;
    make_reference_head(from.config, from.weights, conventions)->forward(input, {}, all);
    return all.stages.size();
  }()) << what;
  const Selections forced = golden::selections_of(ours.stages, input.sequences());
  const auto run = [&](Precision precision) {
    KeepingSink sink;
    make_reference_head(from.config, from.weights, conventions, {.precision = precision})
        ->forward(input, {.forced = &forced}, sink);
    return sink.stages;
  };
  EXPECT_THAT(golden::beyond_policy(ours.stages, run(Precision::f64), run(Precision::bf16)), ::testing::IsEmpty())
      << what;
}

class OracleCases : public ::testing::TestWithParam<std::string> {};

TEST_P(OracleCases, EveryStageIsWithinThePolicy) {
  const auto from = golden::read_forward_case(kForward, GetParam());
  const std::size_t steps = from.inputs.contains("step1.input_ids") ? 2 : 1;
  for (const std::string dialect : {"vllm", "transformers"}) {
    for (std::size_t step = 0; step < steps; ++step) {
      check_case(from, preset(dialect), step, dialect + ", step " + std::to_string(step));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Forward, OracleCases, ::testing::ValuesIn(golden::forward_cases(kForward)),
                         [](const auto& one) { return one.param; });

TEST(CudaHead, QuantisedIndexer) {
  auto conventions = preset("vllm");
  conventions.indexer_fp8 = true;
  check_case(golden::read_forward_case(kForward, "fp8_indexer"), conventions, 0, "fp8");
}

TEST(CudaHead, PositionZeroMaskIsAConvention) {
  auto conventions = preset("vllm");
  conventions.position_zero_mask = false;
  check_case(golden::read_forward_case(kForward, "packed"), conventions, 0, "no mask");
}

/// What drafts of one step after another give, with the head's own rows in between.
std::vector<std::vector<std::int64_t>> drafts_step_by_step(Head& head, HeadInput last, std::size_t steps) {
  std::vector<std::vector<std::int64_t>> drafts(last.sequences());
  for (std::size_t k = 0; k < steps; ++k) {
    KeepingSink sink;
    head.forward(last, {.step = k, .spec_step_idx = k}, sink);
    const Tensor& logits = sink.stages.at(k == 0 ? "logits" : "step" + std::to_string(k) + ".logits");
    const auto values = to_f32(logits.view());
    for (std::size_t s = 0; s < drafts.size(); ++s) {
      const auto row = values.begin() + static_cast<std::ptrdiff_t>(s * logits.shape[1]);
      drafts[s].push_back(std::max_element(row, row + static_cast<std::ptrdiff_t>(logits.shape[1])) - row);
      last.input_ids[s] = drafts[s].back();
      last.positions[s] += 1;
    }
    last.hidden_states = sink.stages.at(k == 0 ? "final_layernorm" : "step" + std::to_string(k) + ".final_layernorm");
  }
  return drafts;
}

/// The last row of each sequence as a batch of its own, and the rows before it.
std::pair<HeadInput, HeadInput> split_last_rows(const HeadInput& input) {
  HeadInput before;
  HeadInput last;
  before.cu_seqlens = last.cu_seqlens = {0};
  const auto width = input.hidden_states.shape[1];
  const auto hidden = to_f32(input.hidden_states.view());
  std::vector<float> hidden_before;
  std::vector<float> hidden_last;
  for (std::size_t s = 0; s < input.sequences(); ++s) {
    for (auto t = static_cast<std::size_t>(input.cu_seqlens[s]); t < static_cast<std::size_t>(input.cu_seqlens[s + 1]);
         ++t) {
      const bool is_last = t + 1 == static_cast<std::size_t>(input.cu_seqlens[s + 1]);
      HeadInput& to = is_last ? last : before;
      to.input_ids.push_back(input.input_ids[t]);
      to.positions.push_back(input.positions[t]);
      auto& rows = is_last ? hidden_last : hidden_before;
      rows.insert(rows.end(), hidden.begin() + static_cast<std::ptrdiff_t>(t * width),
                  hidden.begin() + static_cast<std::ptrdiff_t>((t + 1) * width));
    }
    before.cu_seqlens.push_back(static_cast<std::int64_t>(before.positions.size()));
    last.cu_seqlens.push_back(static_cast<std::int64_t>(last.positions.size()));
  }
  before.hidden_states = tensor_of<float>({before.positions.size(), width}, hidden_before);
  last.hidden_states = tensor_of<float>({last.positions.size(), width}, hidden_last);
  return {before, last};
}

TEST(CudaHead, OneGraphDraftsAsStepAfterStep) {
  for (const std::string name : {"packed", "topk_below_seq"}) {
    const auto from = golden::read_forward_case(kForward, name);
    const auto [before, last] = split_last_rows(from.input());
    CudaHead head(from.config, from.weights, preset("vllm"));
    KeepingSink unused;
    head.forward(before, {}, unused);
    const auto expected = drafts_step_by_step(head, last, 3);
    for (int round = 0; round < 2; ++round) {  // once recorded, once found fitting
      for (std::size_t s = 0; s < last.sequences(); ++s) {
        head.rollback(s, static_cast<std::size_t>(before.cu_seqlens[s + 1] - before.cu_seqlens[s]));
      }
      EXPECT_EQ(head.draft(last, 3), expected) << name << ", round " << round;
    }
    EXPECT_THROW(head.draft(from.input(), 3), Error);
  }
}

/// Rows appended one by one see what a prefill sees; a rollback forgets.
TEST(CudaHead, DecodeAndRollbackGiveThePrefillsRows) {
  const auto from = golden::read_forward_case(kForward, "topk_below_seq");
  const HeadInput input = from.input();
  const auto conventions = preset("vllm");
  KeepingSink whole;
  CudaHead(from.config, from.weights, conventions).forward(input, {}, whole);
  const auto [before, last] = split_last_rows(input);
  CudaHead head(from.config, from.weights, conventions);
  for (int round = 0; round < 2; ++round) {
    KeepingSink unused;
    KeepingSink row;
    head.forward(before, {}, unused);
    head.forward(last, {}, row);
    const auto expected = to_f64(whole.stages.at("logits").view());
    const auto actual = to_f64(row.stages.at("logits").view());
    const std::vector<double> expected_last(expected.end() - static_cast<std::ptrdiff_t>(actual.size()),
                                            expected.end());
    double error = 0;
    double magnitude = 0;
    for (std::size_t i = 0; i < actual.size(); ++i) {
      error += std::pow(actual[i] - expected_last[i], 2);
      magnitude += std::pow(expected_last[i], 2);
    }
    EXPECT_LE(error, 1e-4 * magnitude);
    head.rollback(0, 0);
  }
  EXPECT_THROW(head.rollback(0, 1), Error);
}

TEST(CudaHead, AnEmptySequenceInABatchIsNothing) {
  const auto from = golden::read_forward_case(kForward, "topk_below_seq");
  HeadInput input = from.input();
  input.cu_seqlens.insert(input.cu_seqlens.begin(), 0);
  KeepingSink sink;
  CudaHead head(from.config, from.weights, preset("vllm"));
  head.forward(input, {}, sink);
  KeepingSink alone;
  CudaHead(from.config, from.weights, preset("vllm")).forward(from.input(), {}, alone);
  EXPECT_EQ(sink.stages.at("logits").bytes, alone.stages.at("logits").bytes);
  EXPECT_EQ(sink.stages.at("topk_indices.seq1").bytes, alone.stages.at("topk_indices").bytes);
}

TEST(CudaHead, ForcedSelectionsReplaceItsOwn) {
  const auto from = golden::read_forward_case(kForward, "topk_below_seq");
  const std::size_t tokens = from.input().tokens();
  Selections forced;
  for (std::size_t t = 0; t < tokens; ++t) {
    forced.topk_indices.push_back({static_cast<std::int32_t>(t)});
    forced.topk_experts.push_back({1, 3});
  }
  KeepingSink sink;
  CudaHead(from.config, from.weights, preset("vllm")).forward(from.input(), {.forced = &forced}, sink);
  const auto experts = to_i64(sink.stages.at("topk_experts").view());
  const auto keys = to_i64(sink.stages.at("topk_indices").view());
  const std::size_t width = sink.stages.at("topk_indices").shape[1];
  for (std::size_t t = 0; t < tokens; ++t) {
    EXPECT_EQ(experts[2 * t], 1);
    EXPECT_EQ(experts[2 * t + 1], 3);
    EXPECT_EQ(keys[t * width], static_cast<std::int64_t>(t));
    EXPECT_EQ(keys[t * width + 1], -1);
  }
  forced.topk_indices[2] = {3};  // a later token
  CudaHead head(from.config, from.weights, preset("vllm"));
  EXPECT_THROW(head.forward(from.input(), {.forced = &forced}, sink), Error);
  forced.topk_indices.pop_back();
  EXPECT_THROW(head.forward(from.input(), {.forced = &forced}, sink), Error);
}

}  // namespace
}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
