#include "harness/loading/meaning/declared_quantisation.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace mtpcheck {
namespace {

DeclaredQuantisation declared(const char* quantisation) {
  return declared_quantisation({{"quantization_config", nlohmann::json::parse(quantisation)}});
}

TEST(DeclaredQuantisation, EachDialectIsUnderstood) {
  const auto block = declared(R"({"quant_method": "fp8", "weight_block_size": [64, 128]})");
  EXPECT_EQ(block.layout, QuantLayout::block);
  EXPECT_EQ(block.block, (BlockSize{64, 128}));
  EXPECT_EQ(declared(R"({"quant_method": "modelopt", "quant_algo": "MXFP8"})").layout, QuantLayout::mx);
  EXPECT_EQ(declared(R"({"quant_method": "modelopt", "quant_algo": "FP8"})").layout, QuantLayout::per_tensor);
  EXPECT_EQ(declared(R"({"quant_method": "compressed-tensors",
                         "config_groups": {"group_0": {"weights": {"strategy": "channel"}}}})")
                .layout,
            QuantLayout::per_channel);
}

TEST(DeclaredQuantisation, WhatIsAbsentOrMixedOrMalformedDeclaresNothing) {
  EXPECT_FALSE(declared_quantisation(nlohmann::json::object()).layout);
  EXPECT_FALSE(declared_quantisation(nullptr).layout);
  for (const char* text :
       {"null", "[]", R"({"quant_method": "fp8", "weight_block_size": [0, 128]})", R"({"quant_method": "fp8"})",
        R"({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"})", R"({"quant_method": "compressed-tensors"})",
        R"({"quant_method": "compressed-tensors", "config_groups": {"a": 1}})",
        R"({"quant_method": "compressed-tensors", "config_groups": {"a": {}, "b": {}}})"}) {
    EXPECT_FALSE(declared(text).layout) << text;
  }
}

}  // namespace
}  // namespace mtpcheck
