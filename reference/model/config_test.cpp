#include "reference/model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

json small() {
  return json::parse(R"({
    "model_type": "hy_v4", "num_hidden_layers": 3, "num_nextn_predict_layers": 1,
    "hidden_size": 64, "vocab_size": 97, "num_attention_heads": 4, "q_lora_rank": 32, "kv_lora_rank": 24,
    "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 12,
    "layer_types": ["sparse_attention", "sparse_attention", "sparse_attention"],
    "index_n_heads": 2, "index_head_dim": 32, "index_topk": 4,
    "mlp_layer_types": ["dense", "sparse", "sparse"],
    "n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 40})");
}

std::string message_of(const json& config) {
  try {
    parse_head_config(config, "config.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::input);
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << config;
  return {};
}

TEST(HeadConfig, ReadsDimensionsAndFillsTheEnginesDefaults) {
  const HeadConfig config = parse_head_config(small(), "config.json");
  EXPECT_EQ(config.model_type, "hy_v4");
  EXPECT_EQ(config.hidden_size, 64U);
  EXPECT_EQ(config.kv_lora_rank, 24U);
  EXPECT_EQ(config.v_head_dim, 12U);
  EXPECT_TRUE(config.sparse_attention);
  EXPECT_EQ(config.index_topk, 4U);
  EXPECT_TRUE(config.sparse_mlp);
  EXPECT_EQ(config.n_routed_experts, 6U);
  EXPECT_EQ(config.n_shared_experts, 1U);
  EXPECT_EQ(config.gate, GateKind::elementwise);
  EXPECT_TRUE(config.learnable_sink);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.routed_scaling_factor, 2.827);
  EXPECT_EQ(config.swiglu_limit, 10.0);
  EXPECT_EQ(config.rope.theta, 10000.0);
  EXPECT_EQ(config.rope.type, "default");
}

TEST(HeadConfig, EveryRequiredDimensionIsMissedByNameAndWithTheRemark) {
  for (const char* key :
       {"num_hidden_layers", "hidden_size", "vocab_size", "num_attention_heads", "q_lora_rank", "kv_lora_rank",
        "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "index_n_heads", "index_head_dim", "index_topk",
        "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size"}) {
    json config = small();
    config.erase(key);
    EXPECT_THAT(message_of(config), AllOf(HasSubstr("config.json: "), HasSubstr(key), HasSubstr("is missing"),
                                          HasSubstr("default, the dimension of a smaller model")));
    config[key] = "64";
    EXPECT_THAT(message_of(config), AllOf(HasSubstr(key), HasSubstr("\"64\"")));
    config[key] = -1;
    EXPECT_THAT(message_of(config), HasSubstr(key));
    config[key] = 0;
    EXPECT_THAT(message_of(config), HasSubstr(key));
    config[key] = 64.0;
    EXPECT_THAT(message_of(config), HasSubstr(key));
  }
}

TEST(HeadConfig, OnlyWhatTheLayerUsesIsRequired) {
  json dense = small();
  dense["layer_types"] = {"full_attention", "full_attention", "full_attention"};
  dense["mlp_layer_types"] = {"dense", "dense", "dense"};
  for (const char* key : {"index_n_heads", "index_head_dim", "index_topk", "n_routed_experts"}) dense.erase(key);
  EXPECT_THAT(message_of(dense), HasSubstr("intermediate_size"));
  dense["intermediate_size"] = 96;
  const HeadConfig config = parse_head_config(dense, "config.json");
  EXPECT_FALSE(config.sparse_attention);
  EXPECT_FALSE(config.sparse_mlp);
  EXPECT_EQ(config.intermediate_size, 96U);
}

TEST(HeadConfig, AbsentListsMeanDenseAttentionAndOneDenseMlp) {
  json config = small();
  config.erase("layer_types");
  config["mlp_layer_types"] = nullptr;
  EXPECT_FALSE(parse_head_config(config, "").sparse_attention);
  EXPECT_TRUE(parse_head_config(config, "").sparse_mlp);
  config["num_hidden_layers"] = 1;
  config["intermediate_size"] = 96;
  EXPECT_FALSE(parse_head_config(config, "").sparse_mlp) << "the only backbone layer is the dense one";
}

TEST(HeadConfig, ListsOfBackboneLengthAndWithTheMtpLayersBothWork) {  // FAULTS N11
  json config = small();
  config["layer_types"] = {"full_attention", "full_attention", "full_attention", "indexed_attention"};
  EXPECT_TRUE(parse_head_config(config, "").sparse_attention) << "entry L, not the last backbone layer's";
  config["layer_types"].push_back("indexed_attention");
  EXPECT_THAT(message_of(config),
              AllOf(HasSubstr("layer_types"), HasSubstr("has 5 entries"), HasSubstr("3 "), HasSubstr("to 4 ")));
  config["num_nextn_predict_layers"] = 2;
  EXPECT_TRUE(parse_head_config(config, "").sparse_attention);
  config["layer_types"][4] = "full_attention";
  EXPECT_THAT(message_of(config), HasSubstr("different kinds"));
  config["layer_types"] = {"sparse", "sparse"};
  EXPECT_THAT(message_of(config), HasSubstr("has 2 entries"));
  config["layer_types"] = {"sparse", "sparse", "sparce"};
  EXPECT_THAT(message_of(config), HasSubstr("sparce"));
}

TEST(HeadConfig, EverySpellingOfSparseIsKnown) {
  for (const char* word : {"sparse", "sparse_attention", "indexed_attention", "deepseek_sparse_attention"}) {
    json config = small();
    config["layer_types"][2] = word;
    EXPECT_TRUE(parse_head_config(config, "").sparse_attention) << word;
  }
}

TEST(HeadConfig, TheNumberOfMtpLayersIsKeptAsDeclared) {  // FAULTS N12
  json config = small();
  config["num_nextn_predict_layers"] = nullptr;
  EXPECT_EQ(parse_head_config(config, "").num_nextn_predict_layers, 0U);
  config["num_nextn_predict_layers"] = 0;
  EXPECT_EQ(parse_head_config(config, "").num_nextn_predict_layers, 0U);
  config["num_nextn_predict_layers"] = 3;
  EXPECT_EQ(parse_head_config(config, "").num_nextn_predict_layers, 3U);
  config.erase("num_nextn_predict_layers");
  EXPECT_EQ(parse_head_config(config, "").num_nextn_predict_layers, 1U);
}

TEST(HeadConfig, ValuesThatCannotBeAreRefused) {
  const auto refused = [](const char* key, const json& value) {
    json config = small();
    config[key] = value;
    return message_of(config);
  };
  EXPECT_THAT(refused("qk_rope_head_dim", 7), HasSubstr("must be even"));
  EXPECT_THAT(refused("num_experts_per_tok", 7), HasSubstr("only 6 experts"));
  EXPECT_THAT(refused("index_head_dim", 4), HasSubstr("less than qk_rope_head_dim 8"));
  EXPECT_THAT(refused("n_group", 4), HasSubstr("does not divide"));
  EXPECT_THAT(refused("topk_group", 2), HasSubstr("topk_group"));
  EXPECT_THAT(refused("gating_type", "blockwise"), HasSubstr("blockwise"));
  EXPECT_THAT(refused("gated_mla", 1), HasSubstr("true or false"));
  EXPECT_THAT(refused("rms_norm_eps", "1e-5"), HasSubstr("a number"));
  EXPECT_THAT(refused("layer_types", "sparse"), HasSubstr("a list of texts"));
  EXPECT_THAT(refused("rope_parameters", json::array()), HasSubstr("rope_parameters"));
  EXPECT_THAT(refused("rope_parameters", {{"rope_theta", 0}}), HasSubstr("must be positive"));
  EXPECT_THAT(refused("vocab_size", std::uint64_t{1} << 60), HasSubstr("2^40"));
  EXPECT_THAT(refused("moe_intermediate_size", std::uint64_t{1} << 41), HasSubstr("2^40"));
  EXPECT_THAT(refused("num_nextn_predict_layers", 1'000'000), HasSubstr("more than the 1000"));
  EXPECT_THAT(refused("n_routed_experts", 1'000'000), HasSubstr("more than the 65536"));
  EXPECT_THAT(refused("index_n_heads", 1'000'000), HasSubstr("more than the 65536"));
  json config = small();
  config["vocab_size"] = std::uint64_t{1} << 40;
  config["hidden_size"] = std::uint64_t{1} << 40;
  EXPECT_THAT(message_of(config), HasSubstr("overflow"));
  EXPECT_THROW(parse_head_config(json::array(), "config.json"), Error);
}

TEST(HeadConfig, RopeIsReadFromEitherGeneration) {
  json config = small();
  config["rope_parameters"] = {{"rope_type", "yarn"}, {"rope_theta", 1e7}, {"factor", 4.0}, {"truncate", false}};
  RopeParameters rope = parse_head_config(config, "").rope;
  EXPECT_EQ(rope.type, "yarn");
  EXPECT_EQ(rope.theta, 1e7);
  EXPECT_EQ(rope.factor, 4.0);
  EXPECT_FALSE(rope.truncate);
  config.erase("rope_parameters");
  config["rope_theta"] = 500000;
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 2}};
  rope = parse_head_config(config, "").rope;
  EXPECT_EQ(rope.type, "linear");
  EXPECT_EQ(rope.theta, 500000);
  EXPECT_EQ(rope.factor, 2);
}

TEST(HeadConfig, ASwigluLimitAtOrBelowZeroIsNoClamp) {
  json config = small();
  config["swiglu_limit"] = -1;
  EXPECT_EQ(parse_head_config(config, "").swiglu_limit, 0.0);
}

}  // namespace
}  // namespace mtpcheck
