#include "harness/loading/vllm/quantisation/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reference/tensor/error.h"

namespace mtpcheck::vllm {
namespace {

using Json = nlohmann::json;

Quantisation read(const char* config) { return read_quantisation(Json::parse(config), 3, 1); }

std::string refused_key(const char* config) {
  try {
    read(config);
  } catch (const Refused& refused) {
    return refused.config_key;
  }
  return "";
}

TEST(Quantisation, IsNoneWithoutAConfiguration) {
  EXPECT_FALSE(read("{}").draft);
  EXPECT_FALSE(read("{}").model_is_quantised);
  EXPECT_FALSE(read(R"({"quantization_config": null})").draft);
}

TEST(Quantisation, OfTheBackboneIsInherited) {
  const auto quant = read(R"({"quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic",
                              "weight_block_size": [64, 32], "modules_to_not_convert": ["lm_head"]}})");
  ASSERT_TRUE(quant.draft);
  EXPECT_TRUE(quant.draft->fp8_blocks());
  EXPECT_EQ(quant.draft->scheme.block_rows, 64U);
  EXPECT_EQ(quant.draft->scheme.block_cols, 32U);
  EXPECT_THAT(quant.draft->exclusions, testing::ElementsAre("lm_head"));
  EXPECT_EQ(quant.draft->exclusions_key, "quantization_config.modules_to_not_convert");
}

TEST(Quantisation, OfTheMtpLayersOverridesIt) {
  const auto bf16 = read(R"({"mtp_quant_algo": "bf16", "quantization_config":
                             {"quant_method": "fp8", "activation_scheme": "dynamic"}})");
  EXPECT_FALSE(bf16.draft);
  EXPECT_TRUE(bf16.model_is_quantised);

  // Made from the same object, whatever its method is; scale_fmt counts only here.
  const auto fp8 = read(R"({"mtp_quant_algo": "FP8", "quantization_config": {"quant_method": "modelopt",
      "quant_algo": "MXFP8", "weight_block_size": [128, 128], "scale_fmt": "ue8m0", "ignore": ["lm_head"]}})");
  ASSERT_TRUE(fp8.draft);
  EXPECT_TRUE(fp8.draft->fp8_blocks());
  EXPECT_EQ(fp8.draft->scheme.scale_dtype, Dtype::f8_e8m0);
  EXPECT_TRUE(fp8.draft->exclusions.empty());

  const auto alone = read(R"({"mtp_quant_algo": "FP8"})");
  EXPECT_EQ(alone.draft->scheme.kind, Scheme::Kind::fp8_tensor);
  EXPECT_FALSE(alone.model_is_quantised);
}

TEST(Quantisation, AnUnknownMtpAlgorithmIsSaidAndIgnored) {
  const auto quant = read(R"({"mtp_quant_algo": "int3"})");
  ASSERT_EQ(quant.warnings.size(), 1U);
  EXPECT_EQ(quant.warnings[0].text, "Unknown mtp_quant_algo=INT3, falling back to the backbone config.");
  EXPECT_FALSE(quant.draft);
}

TEST(Quantisation, ScaleFormatAloneIsNotEnough) {
  const auto quant = read(R"({"quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic",
                              "weight_block_size": [128, 128], "scale_fmt": "ue8m0"}})");
  EXPECT_EQ(quant.draft->scheme.scale_dtype, Dtype::f32);
}

TEST(Quantisation, OfModelOptIsToldByItsAlgorithm) {
  const auto kind = [](const std::string& algorithm) {
    const Json config = {{"quantization_config", {{"quant_method", "modelopt"}, {"quant_algo", algorithm}}}};
    return read_quantisation(config, 3, 1).draft->scheme;
  };
  EXPECT_EQ(kind("FP8").kind, Scheme::Kind::fp8_tensor);
  EXPECT_TRUE(kind("FP8").static_activation);
  EXPECT_EQ(kind("FP8_PER_CHANNEL_PER_TOKEN").kind, Scheme::Kind::fp8_channel);
  EXPECT_EQ(kind("fp8_pb_wo").kind, Scheme::Kind::fp8_block);
  EXPECT_EQ(kind("MXFP8").kind, Scheme::Kind::mxfp8);
  EXPECT_EQ(kind("NVFP4").group, 16U);
  EXPECT_TRUE(kind("W4A16_NVFP4").activation_scale_unused);
  EXPECT_THROW(kind("MXFP4"), Refused);
  EXPECT_THROW(kind("MIXED_PRECISION"), Error);
}

TEST(Quantisation, WithoutActivationGroupsNvfp4IsWeightOnly) {
  const auto quant = read(R"({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4",
      "group_size": 32, "config_groups": {"a": {"weights": {}, "input_activations": null}}}})");
  EXPECT_TRUE(quant.draft->scheme.activation_scale_unused);
  EXPECT_EQ(quant.draft->scheme.group, 32U);
}

TEST(Quantisation, IgnoreBeatsExcludeModulesEvenWhenItIsNull) {
  const auto quant = read(R"({"quantization_config": {"quant_method": "modelopt", "quant_algo": "MXFP8",
      "ignore": ["lm_head", "model.mtp_layers.0.self_attn.linear_gate*"], "exclude_modules": ["x"]}})");
  EXPECT_THAT(quant.draft->exclusions,
              testing::ElementsAre("lm_head", "model.mtp_layers.0.self_attn.linear_gate",
                                   "model.mtp_layers.0.self_attn.linear_gate.*", "model.layers.3.self_attn.linear_gate",
                                   "model.layers.3.self_attn.linear_gate.*"));
  EXPECT_EQ(refused_key(R"({"quantization_config": {"quant_method": "modelopt", "quant_algo": "MXFP8",
                            "ignore": null, "exclude_modules": ["x"]}})"),
            "quantization_config.ignore");
}

TEST(Quantisation, MiniMaxSpellsMxfp8AsItsMethod) {
  const auto quant = read(R"({"quantization_config": {"quant_method": "mxfp8", "ignored_layers": ["lm_head"]}})");
  EXPECT_EQ(quant.draft->scheme.kind, Scheme::Kind::mxfp8);
  EXPECT_EQ(quant.draft->exclusions_key, "quantization_config.ignored_layers");
}

TEST(Quantisation, RefusalsNameTheirKey) {
  EXPECT_EQ(refused_key(R"({"quantization_config": {"quant_method": "fp8"}})"),
            "quantization_config.activation_scheme");
  EXPECT_EQ(refused_key(R"({"quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic",
                            "weight_block_size": [128]}})"),
            "quantization_config.weight_block_size");
  EXPECT_EQ(refused_key(R"({"quantization_config": {"quant_method": "fp8", "activation_scheme": "static",
                            "weight_block_size": [128, 128]}})"),
            "quantization_config.activation_scheme");
  EXPECT_EQ(refused_key(R"({"quantization_config": {"quant_method": "fp3"}})"), "quantization_config.quant_method");
  EXPECT_EQ(refused_key(R"({"quantization_config": {"quant_method": "modelopt", "producer": {"name": "modelopt"},
                            "quantization": {"quant_algo": "MXFP8"}}})"),
            "quantization_config.quantization.quant_algo");
}

TEST(Quantisation, OfCompressedTensorsFindsModulesByTarget) {
  const auto quant = read(R"({"quantization_config": {"quant_method": "compressed-tensors", "format": "float-quantized",
      "ignore": ["re:.*o_proj"], "config_groups": {"g": {"targets": ["Linear"],
        "weights": {"type": "float", "num_bits": 8, "strategy": "tensor", "symmetric": true, "dynamic": false},
        "input_activations": {"type": "float", "num_bits": 8, "strategy": "tensor", "dynamic": false}}}}})");
  const auto& draft = quant.draft;
  EXPECT_EQ(linear_scheme(draft, "model.layers.3.self_attn.q_b_proj", "ColumnParallelLinear").kind,
            Scheme::Kind::fp8_tensor);
  EXPECT_EQ(linear_scheme(draft, "model.layers.3.self_attn.o_proj", "RowParallelLinear").kind, Scheme::Kind::none);
  EXPECT_EQ(expert_scheme(draft, "model.layers.3.mlp.experts").kind, Scheme::Kind::fp8_tensor);
  EXPECT_EQ(head_scheme(draft).kind, Scheme::Kind::none);
}

TEST(Quantisation, OtherSchemesOfCompressedTensorsAreNotCovered) {
  EXPECT_THROW(read(R"({"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"g":
      {"targets": ["Linear"], "weights": {"type": "int", "num_bits": 4, "strategy": "group"}}}}})"),
               Error);
}

}  // namespace
}  // namespace mtpcheck::vllm
