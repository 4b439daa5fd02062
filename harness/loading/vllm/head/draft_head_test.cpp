// Shapes and initial values of the parameters under the schemes of which no recorded case exists.
#include "harness/loading/vllm/head/draft_head.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/loading/meaning/tiny_checkpoint.h"

namespace mtpcheck::vllm {
namespace {

struct Built {
  explicit Built(const nlohmann::json& quantisation, const nlohmann::json& changes = nlohmann::json::object(),
                 Topology topology = {}) {
    TinyCheckpoint tiny;
    tiny.json.update(changes);
    if (!quantisation.is_null()) tiny.json["quantization_config"] = quantisation;
    const HeadConfig config = tiny.config();
    head = build_draft_head({config, tiny.json, tiny.headers, std::move(topology)},
                            read_quantisation(tiny.json, config.num_hidden_layers, 1));
  }

  const EngineParameter& at(const std::string& name) const {
    const std::string full = "model.layers.3.mtp_block." + name;
    const auto found = std::ranges::find_if(head.parameters,
                                            [&](const EngineParameter& entry) { return entry.parameter.name == full; });
    if (found == head.parameters.end()) throw std::out_of_range(full);
    return *found;
  }
  Shape shape(const std::string& name) const { return at(name).parameter.shape; }
  bool has(const std::string& name) const {
    return std::ranges::any_of(head.parameters, [&](const EngineParameter& entry) {
      return entry.parameter.name == "model.layers.3.mtp_block." + name;
    });
  }

  DraftHead head;
};

std::string refused_key(const nlohmann::json& quantisation, const nlohmann::json& changes = nlohmann::json::object(),
                        Topology topology = {}) {
  try {
    const Built built(quantisation, changes, std::move(topology));
  } catch (const Refused& refused) {
    return refused.config_key;
  }
  return "";
}

nlohmann::json modelopt(const char* algorithm) { return {{"quant_method", "modelopt"}, {"quant_algo", algorithm}}; }

const nlohmann::json kFp8Tensor = {{"quant_method", "fp8"}, {"activation_scheme", "static"}};
const nlohmann::json kFp8Block = {
    {"quant_method", "fp8"}, {"activation_scheme", "dynamic"}, {"weight_block_size", {128, 128}}};

TEST(DraftHead, Fp8ATensorHasOneScaleAProjection) {
  const Built built(kFp8Tensor);
  EXPECT_EQ(built.shape("self_attn.fused_qkv_a_proj.weight_scale"), Shape{2});
  EXPECT_EQ(built.shape("self_attn.o_proj.input_scale"), Shape{1});
  EXPECT_EQ(built.at("self_attn.o_proj.input_scale").parameter.initial, Initial::float_min);
  EXPECT_EQ(built.shape("mlp.experts.routed_experts.w13_weight_scale"), (Shape{3, 2}));
  EXPECT_EQ(built.shape("mlp.experts.routed_experts.w2_input_scale"), Shape{3});
  EXPECT_EQ(built.at("mlp.experts.routed_experts.w2_input_scale").parameter.initial, Initial::one);
  EXPECT_FALSE(built.has("self_attn.mla_attn.k_scale"));
}

TEST(DraftHead, ModelOptsBlocksStandInFourDimensions) {
  const Built built(modelopt("FP8_PB_WO"), {{"kv_lora_rank", 128}, {"moe_intermediate_size", 128}});
  EXPECT_EQ(built.shape("self_attn.fused_qkv_a_proj.weight_scale"), (Shape{3, 1, 2, 1}));
  EXPECT_EQ(built.at("self_attn.fused_qkv_a_proj.weight_scale").parameter.extents, (Extents{1, 3, 2}));
  EXPECT_EQ(built.shape("mlp.experts.routed_experts.w13_weight_scale"), (Shape{3, 2}));  // experts: a scale a tensor
  EXPECT_TRUE(built.has("self_attn.mla_attn.prob_scale"));
  EXPECT_EQ(refused_key(modelopt("FP8_PB_WO")), "kv_lora_rank");
}

TEST(DraftHead, ModelOptsChannelScalesAreFlat) {
  const Built built(modelopt("FP8_PER_CHANNEL_PER_TOKEN"));
  EXPECT_EQ(built.shape("self_attn.o_proj.weight_scale"), Shape{256});
  EXPECT_FALSE(built.has("self_attn.o_proj.input_scale"));
}

TEST(DraftHead, AnUnevenRefinementOfExpertBlocks) {
  // Two ranks hold 96 of 192 rows each: gcd(128, 96, 256) = 32.
  const Built built(kFp8Block,
                    {{"moe_intermediate_size", 192},
                     {"n_shared_experts", 0},
                     {"qk_nope_head_dim", 64},
                     {"qk_rope_head_dim", 64},
                     {"index_head_dim", 64},
                     {"v_head_dim", 64}},
                    {2, 1});
  EXPECT_EQ(built.shape("mlp.experts.routed_experts.w13_weight_scale_inv"), (Shape{3, 6, 8}));
  EXPECT_EQ(built.shape("mlp.experts.routed_experts.w2_weight_scale_inv"), (Shape{3, 8, 3}));
  EXPECT_EQ(built.at("mlp.experts.routed_experts.w2_weight_scale_inv").refine_rows, 4U);
}

TEST(DraftHead, BlocksThatARankWouldShareAreRefused) {
  // o_proj: 128 columns over two ranks are half a block each.
  EXPECT_EQ(refused_key(kFp8Block, nlohmann::json::object(), {2, 0}), "num_attention_heads");
  // Experts of 40 rows have no common block of 32 or more.
  EXPECT_EQ(refused_key(kFp8Block, {{"moe_intermediate_size", 40}}), "moe_intermediate_size");
}

TEST(DraftHead, ANarrowGroupOfMxfp8IsRefused) { EXPECT_EQ(refused_key(modelopt("MXFP8")), "kv_lora_rank"); }

TEST(DraftHead, AScaleKnowsItsWeightItsBlocksAndItsParts) {
  const Built built(kFp8Block, {{"moe_intermediate_size", 256}});
  const Parameter& scale = built.at("mlp.experts.routed_experts.w13_weight_scale_inv").parameter;
  EXPECT_EQ(scale.role, Role::scale);
  EXPECT_EQ(scale.scales, "model.layers.3.mtp_block.mlp.experts.routed_experts.w13_weight");
  EXPECT_EQ(scale.block_rows, 128U);
  ASSERT_EQ(scale.parts.size(), 2U);
  EXPECT_EQ(scale.parts[1].name, "up_proj");
  EXPECT_EQ(scale.parts[1].rows, (Interval{2, 4}));
}

TEST(DraftHead, WithoutGateSinkOrSharedExpertsTheyAreNotThere) {
  const Built built(nullptr, {{"gated_mla", false}, {"learnable_sink", false}, {"n_shared_experts", 0}});
  EXPECT_FALSE(built.has("self_attn.linear_gate.weight"));
  EXPECT_FALSE(built.has("self_attn.learnable_sink_param"));
  EXPECT_FALSE(built.has("mlp.shared_experts.down_proj.weight"));
  EXPECT_TRUE(built.has("self_attn.indexer.wq_b.weight"));
}

TEST(DraftHead, ADenseLastLayerHasNoExperts) {
  const Built built(nullptr, {{"mlp_layer_types", {"dense", "sparse", "dense"}}, {"intermediate_size", 96}});
  EXPECT_EQ(built.shape("mlp.gate_up_proj.weight"), (Shape{192, 256}));
  EXPECT_FALSE(built.has("mlp.gate.weight"));
}

}  // namespace
}  // namespace mtpcheck::vllm
