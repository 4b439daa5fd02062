#include "harness/loading/carry_out/weights_as_loaded.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "golden/cases/loader_case.h"
#include "harness/checkpoint/checkpoint.h"
#include "harness/loading/meaning/meaning.h"
#include "harness/loading/rules.h"
#include "reference/linear/linear.h"
#include "reference/tensor/error.h"
#include "reference/tensor/float_formats.h"

namespace mtpcheck {
namespace {

const std::filesystem::path kGolden = MTPCHECK_GOLDEN_DIR;

// A checkpoint, planned by vLLM's rules.
struct Loaded {
  HeaderSet headers;
  nlohmann::json json;
  HeadConfig config;
  std::shared_ptr<const void> storage;
  Topology topology = {};

  LoadRequest request() const { return {config, json, headers, topology}; }
  LoadPlan plan() const { return plan_vllm_0_33_0(request()); }
  HeadWeights as_loaded(Fill fill = Fill::initial) const {
    return weights_as_loaded(plan(), request(), headers.tensors, fill);
  }
  HeadWeights as_meant() const { return weights_as_meant(meaning_of(config, json, headers), config, headers, storage); }
};

Loaded recorded(const std::string& name) {
  const golden::LoaderCases cases(kGolden / "loader");
  const auto made = std::make_shared<golden::LoaderCase>(cases.read(name));
  Loaded loaded{{}, made->config, parse_head_config(made->config, name), made};
  for (const auto& [file, tensors] : made->files) {
    for (const auto& [tensor, value] : tensors) {
      loaded.headers.tensors.push_back(value.view(tensor));
      loaded.headers.tensors.back().file = file;
    }
  }
  return loaded;
}

Loaded opened(const std::string& folder) {
  const auto checkpoint = std::make_shared<Checkpoint>(open_checkpoint(kGolden / "tiny-hy4" / folder));
  return {checkpoint->headers, checkpoint->config, parse_head_config(checkpoint->config, folder), checkpoint};
}

void expect_equal(const Matrix& loaded, const Matrix& meant) {
  ASSERT_EQ(loaded.rows, meant.rows) << loaded.name;
  ASSERT_EQ(loaded.cols, meant.cols) << loaded.name;
  // An FP8 wk of the indexer becomes BF16 on its way; nothing else changes its number.
  const bool rounded = meant.scales.data != nullptr && loaded.scales.data == nullptr;
  std::vector<float> a(loaded.cols);
  std::vector<float> b(loaded.cols);
  for (std::size_t row = 0; row < loaded.rows; ++row) {
    decode_row(loaded, row, 0, loaded.cols, a.data());
    decode_row(meant, row, 0, meant.cols, b.data());
    for (std::size_t col = 0; col < loaded.cols; ++col) {
      const float expected = rounded ? round_to_bf16(b[col]) : b[col];
      ASSERT_EQ(a[col], expected) << loaded.name << " row " << row << " column " << col;
    }
  }
}

void expect_equal(const MlpWeights& loaded, const MlpWeights& meant) {
  expect_equal(loaded.gate, meant.gate);
  expect_equal(loaded.up, meant.up);
  expect_equal(loaded.down, meant.down);
}

void expect_equal(const LayerWeights& loaded, const LayerWeights& meant) {
  EXPECT_EQ(loaded.enorm, meant.enorm);
  EXPECT_EQ(loaded.hnorm, meant.hnorm);
  EXPECT_EQ(loaded.final_layernorm, meant.final_layernorm);
  EXPECT_EQ(loaded.input_layernorm, meant.input_layernorm);
  EXPECT_EQ(loaded.post_attention_layernorm, meant.post_attention_layernorm);
  EXPECT_EQ(loaded.q_a_layernorm, meant.q_a_layernorm);
  EXPECT_EQ(loaded.kv_a_layernorm, meant.kv_a_layernorm);
  EXPECT_EQ(loaded.sink, meant.sink);
  for (const auto member :
       {&LayerWeights::eh_proj, &LayerWeights::q_a_proj, &LayerWeights::q_b_proj, &LayerWeights::kv_a_proj,
        &LayerWeights::kv_b_proj, &LayerWeights::o_proj, &LayerWeights::linear_gate, &LayerWeights::lm_head}) {
    expect_equal(loaded.*member, meant.*member);
  }
  ASSERT_EQ(loaded.indexer.has_value(), meant.indexer.has_value());
  if (loaded.indexer) {
    expect_equal(loaded.indexer->wq_b, meant.indexer->wq_b);
    expect_equal(loaded.indexer->wk, meant.indexer->wk);
    expect_equal(loaded.indexer->weights_proj, meant.indexer->weights_proj);
    EXPECT_EQ(loaded.indexer->k_norm_weight, meant.indexer->k_norm_weight);
    EXPECT_EQ(loaded.indexer->k_norm_bias, meant.indexer->k_norm_bias);
  }
  ASSERT_EQ(loaded.moe.has_value(), meant.moe.has_value());
  if (loaded.moe) {
    expect_equal(loaded.moe->router, meant.moe->router);
    EXPECT_EQ(loaded.moe->expert_bias, meant.moe->expert_bias);
    ASSERT_EQ(loaded.moe->experts.size(), meant.moe->experts.size());
    for (std::size_t i = 0; i < loaded.moe->experts.size(); ++i) {
      expect_equal(loaded.moe->experts[i], meant.moe->experts[i]);
    }
    expect_equal(*loaded.moe->shared, *meant.moe->shared);
  }
}

void expect_same_head(const Loaded& checkpoint) {
  const HeadWeights loaded = checkpoint.as_loaded();
  const HeadWeights meant = checkpoint.as_meant();
  expect_equal(loaded.embed_tokens, meant.embed_tokens);
  ASSERT_EQ(loaded.layers.size(), meant.layers.size());
  for (std::size_t i = 0; i < loaded.layers.size(); ++i) expect_equal(loaded.layers[i], meant.layers[i]);
}

class FaultlessCases : public testing::TestWithParam<const char*> {};

TEST_P(FaultlessCases, AreLoadedAsMeant) { expect_same_head(recorded(GetParam())); }

INSTANTIATE_TEST_SUITE_P(WeightsAsLoaded, FaultlessCases,
                         testing::Values("a_bf16_split", "b_bf16_fused", "d_fp8_split", "e_fp8_fused",
                                         "g_fp8_indexer_wk_128", "f_ue8m0_split", "q_mxfp8_split", "q_mxfp8_wk",
                                         "q_ct_channel_split", "q_modelopt_fp8_split", "p_tied"),
                         [](const auto& each) { return each.param; });

class TrainedHeads : public testing::TestWithParam<const char*> {};

TEST_P(TrainedHeads, LoadWithoutAWarningAndAsMeant) {
  const Loaded checkpoint = opened(GetParam());
  const LoadPlan plan = checkpoint.plan();
  EXPECT_TRUE(plan.warnings.empty()) << plan.warnings.front().text;
  EXPECT_FALSE(plan.exception || plan.refusal);
  expect_same_head(checkpoint);
}

INSTANTIATE_TEST_SUITE_P(WeightsAsLoaded, TrainedHeads,
                         testing::Values("checkpoint-bf16", "checkpoint-split", "checkpoint-fp8-block",
                                         "checkpoint-mxfp8"));

TEST(WeightsAsLoaded, KeepTheFillWhereNothingWasWritten) {
  const Loaded checkpoint = recorded("j_missing_expert");
  const auto element = [&](Fill fill) {
    const HeadWeights weights = checkpoint.as_loaded(fill);
    for (const MlpWeights& expert : weights.layers[0].moe->experts) {
      float first = 0;
      decode_row(expert.down, 0, 0, 1, &first);
      if (fill == Fill::nan ? std::isnan(first) : first == 0.0F) return true;
    }
    return false;
  };
  EXPECT_TRUE(element(Fill::nan));
  EXPECT_TRUE(element(Fill::zero));
}

TEST(WeightsAsLoaded, ALaterLayerSharesTheHeadOfTheFirst) {
  const HeadWeights weights = recorded("m_nextn3_mtp_layers").as_loaded();
  ASSERT_EQ(weights.layers.size(), 3U);
  EXPECT_EQ(weights.layers[2].lm_head.data, weights.layers[0].lm_head.data);
}

TEST(WeightsAsLoaded, AreNoneWhereTheEngineStops) {
  EXPECT_THROW(recorded("i_excluded_half_of_fused").as_loaded(), Error);
  EXPECT_THROW(recorded("x_fused_few_experts").as_loaded(), Error);
  EXPECT_THROW(recorded("j_missing_sink").as_loaded(), Error);
  EXPECT_THROW(recorded("q_nvfp4_fused").as_loaded(), Error);
}

TEST(WeightsAsLoaded, NeedTheWholeOfEveryMatrix) {
  Loaded checkpoint = recorded("a_bf16_split");
  checkpoint.topology.tp_size = 2;
  EXPECT_THROW(checkpoint.as_loaded(), Error);
}

}  // namespace
}  // namespace mtpcheck
