#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "harness/checkpoint/checkpoint.h"
#include "harness/loading/meaning/meaning.h"
#include "harness/loading/meaning/tiny_checkpoint.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

using ::testing::HasSubstr;

struct Opened {
  Checkpoint checkpoint;
  HeadConfig config;
  HeadWeights weights;
};

Opened open(const std::string& name) {
  Opened opened;
  opened.checkpoint = open_checkpoint(MTPCHECK_GOLDEN_DIR "/tiny-hy4/checkpoint-" + name);
  require_sound(opened.checkpoint);
  opened.config = parse_head_config(opened.checkpoint.config, "config.json");
  const Meaning meaning = meaning_of(opened.config, opened.checkpoint.config, opened.checkpoint.headers);
  EXPECT_TRUE(meaning.problems.empty());
  opened.weights = weights_as_meant(meaning, opened.config, opened.checkpoint.headers, opened.checkpoint.storage);
  return opened;
}

double number_at(const std::byte* data, Dtype dtype, std::size_t index) {
  const std::size_t size = bits_of(dtype) / 8;
  return to_f64({"", dtype, {1}, {data + index * size, size}, "", 0}).front();
}

// By the definition of Matrix and Scales, element by element.
std::vector<double> dequantised(const Matrix& m) {
  std::vector<double> all(m.rows * m.cols);
  for (std::size_t r = 0; r < m.rows; ++r) {
    for (std::size_t c = 0; c < m.cols; ++c) {
      double value = number_at(m.data, m.dtype, r * m.cols + c);
      if (m.scales.data != nullptr) {
        const std::size_t cell =
            (m.scales.first_row + r) / m.scales.block_rows * m.scales.stride + c / m.scales.block_cols;
        value *= number_at(m.scales.data, m.scales.dtype, cell);
      }
      all[r * m.cols + c] = value;
    }
  }
  return all;
}

// Relative L2 distance of the worst matrix; vectors must be equal.
double worst_distance(const Opened& a, const Opened& b) {
  double worst = 0;
  LayerWeights layer_a = a.weights.layers.at(0);
  LayerWeights layer_b = b.weights.layers.at(0);
  for (const LogicalWeight& weight : logical_weights(a.config)) {
    if (weight.vector != nullptr) {
      EXPECT_EQ(*weight.vector(layer_a), *weight.vector(layer_b)) << weight.name;
      EXPECT_EQ(weight.vector(layer_a)->size(), weight.rows) << weight.name;
      continue;
    }
    const auto x = dequantised(*weight.matrix(layer_a, weight.expert));
    const auto y = dequantised(*weight.matrix(layer_b, weight.expert));
    EXPECT_EQ(x.size(), weight.rows * weight.cols) << weight.name;
    double difference = 0;
    double size = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      difference += (x[i] - y[i]) * (x[i] - y[i]);
      size += x[i] * x[i];
    }
    worst = std::max(worst, std::sqrt(difference / size));
  }
  return worst;
}

TEST(WeightsAsMeant, TheFourGoldenCheckpointsMeanTheSameHead) {
  const Opened bf16 = open("bf16");
  EXPECT_EQ(worst_distance(bf16, open("split")), 0.0);
  const double block = worst_distance(bf16, open("fp8-block"));
  const double mx = worst_distance(bf16, open("mxfp8"));
  EXPECT_GT(block, 0.01);
  EXPECT_LT(block, 0.027);
  EXPECT_GT(mx, 0.01);
  EXPECT_LT(mx, 0.027);
}

TEST(WeightsAsMeant, NothingIsCopied) {
  const Opened opened = open("fp8-block");
  const auto& headers = opened.checkpoint.headers.tensors;
  const auto holds = [&](const std::byte* at) {
    return std::ranges::any_of(headers, [&](const TensorView& tensor) {
      return at >= tensor.bytes.data() && at < tensor.bytes.data() + tensor.bytes.size();
    });
  };
  const MlpWeights& expert = opened.weights.layers.at(0).moe->experts.at(7);
  EXPECT_TRUE(holds(expert.up.data));
  EXPECT_TRUE(holds(expert.up.scales.data));
  EXPECT_TRUE(holds(opened.weights.embed_tokens.data));
}

TEST(WeightsAsMeant, TheMappingOutlivesTheCheckpoint) {
  HeadWeights weights;
  {
    const Opened opened = open("split");
    weights = opened.weights;
  }
  EXPECT_TRUE(std::isfinite(dequantised(weights.layers.at(0).eh_proj).back()));
}

std::string refusal(const TinyCheckpoint& tiny) {
  const Meaning meaning = meaning_of(tiny.config(), tiny.json, tiny.headers);
  try {
    weights_as_meant(meaning, tiny.config(), tiny.headers, nullptr);
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::input);
    return error.what();
  }
  return "accepted";
}

TEST(WeightsAsMeant, RefusesWhatIsUnclearWhatIsNvfp4AndHeadersAlone) {
  TinyCheckpoint tiny;
  tiny.fill();
  EXPECT_THAT(refusal(tiny), HasSubstr("only headers were read"));
  const std::vector<std::byte> bytes(512 * 256 * 2);
  for (TensorView& tensor : tiny.headers.tensors) {
    tensor.bytes = std::span(bytes).first(*byte_size(tensor.dtype, tensor.elements()));
  }
  EXPECT_EQ(refusal(tiny), "accepted");
  tiny.at("self_attn.o_proj.weight") = {"model.mtp_layers.0.self_attn.o_proj.weight",
                                        Dtype::u8,
                                        {256, 64},
                                        std::span(bytes).first(256 * 64),
                                        "m.safetensors",
                                        0};
  tiny.add("model.mtp_layers.0.self_attn.o_proj.weight_scale", {256, 8}, Dtype::f8_e4m3);
  EXPECT_THAT(refusal(tiny), HasSubstr("o_proj.weight is quantised in NVFP4"));
  tiny.drop("hnorm.weight");
  tiny.drop("enorm.weight");
  EXPECT_THAT(refusal(tiny), ::testing::AllOf(HasSubstr("missing: MTP layer 0 enorm.weight"), HasSubstr("1 more")));
}

}  // namespace
}  // namespace mtpcheck
