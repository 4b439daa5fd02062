// FP8, scales, quantised or not: scales that are absent, misnamed, of another format, or left at a sentinel.

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "harness/faults/catalogue/fault.h"
#include "harness/faults/catalogue/mtp_prefix.h"

namespace mtpcheck {
namespace {

void fill(Tensor& tensor, float value) {
  transform(tensor, [value](auto& values) { std::ranges::fill(values, value); });
}

Tensor bytes_as(const Tensor& tensor, Dtype dtype) {
  Tensor result = tensor;
  result.dtype = dtype;
  return result;
}

// E8M0 exponents of float32 scales, rounded upwards.
Tensor exponents_of(const Tensor& scales) {
  Tensor result = make_tensor(Dtype::u8, scales.shape);
  const auto values = to_f32(scales.view());
  for (std::size_t i = 0; i < values.size(); ++i) {
    result.bytes[i] = static_cast<std::byte>(127 + static_cast<int>(std::ceil(std::log2(values[i]))));
  }
  return result;
}

constexpr std::array kScaleFaults{
    Fault{"scale-other-name", "Q01", FaultKind::checkpoint, "o_proj's block scale is called weight_scale", "vllm#43455",
          Catcher::audit, "o_proj.weight_scale", "fp8-block",
          [](EditableCheckpoint& c) {
            rename(c, kAttention + "o_proj.weight_scale_inv", kAttention + "o_proj.weight_scale");
          }},
    Fault{"two-scales-that-differ", "Q01", FaultKind::checkpoint, "o_proj has two scales under two names that differ",
          "vllm#43564", Catcher::audit, "o_proj", "fp8-block",
          [](EditableCheckpoint& c) {
            Tensor other = c.at(kAttention + "o_proj.weight_scale_inv").tensor;
            transform(other, [](auto& values) {
              for (auto& value : values) value *= 2;
            });
            add(c, kAttention + "o_proj.scale", kAttention + "o_proj.weight_scale_inv", std::move(other));
          }},
    Fault{"wk-scale-missing", "Q02", FaultKind::checkpoint,
          "the indexer's FP8 wk has no scale: it is buffered for ever", "TRT-LLM#18658", Catcher::audit, "wk",
          "fp8-block", [](EditableCheckpoint& c) { drop(c, kAttention + "indexer.wk.weight_scale_inv"); }},
    Fault{"exponents-as-numbers", "Q03", FaultKind::checkpoint,
          "block scales are E8M0 bytes and become the numbers 114 to 120", "omlx#2159", Catcher::audit,
          "o_proj.weight_scale_inv", "fp8-block",
          [](EditableCheckpoint& c) {
            auto& scale = c.at(kAttention + "o_proj.weight_scale_inv").tensor;
            scale = exponents_of(scale);
          }},
    Fault{"e8m0-dtype-into-uint8", "Q03", FaultKind::checkpoint, "MXFP8 scales stored as F8_E8M0 become 2^-127",
          "sglang#13067", Catcher::audit, "o_proj.weight_scale", "mxfp8",
          [](EditableCheckpoint& c) {
            auto& scale = c.at(kAttention + "o_proj.weight_scale").tensor;
            scale = bytes_as(scale, Dtype::f8_e8m0);
          }},
    Fault{"scales-packed-in-int32", "Q04", FaultKind::checkpoint, "four E8M0 scales packed in an int32", "miles#1928",
          Catcher::audit, "q_a_proj", "mxfp8",
          [](EditableCheckpoint& c) {
            auto& scale = c.at(kAttention + "q_a_proj.weight_scale").tensor;
            scale.dtype = Dtype::i32;
            scale.shape.back() /= 4;
          }},
    Fault{"channel-scale-in-block-model", "Q05", FaultKind::checkpoint,
          "a per-channel scale where a block grid belongs", "rtp-llm#1279", Catcher::audit, "shared_experts.down_proj",
          "fp8-block",
          [](EditableCheckpoint& c) {
            auto& scale = c.at(kMtp + "mlp.shared_experts.down_proj.weight_scale_inv").tensor;
            scale = make_tensor(Dtype::f32, {256, 1});
            fill(scale, 0.01F);
          }},
    Fault{"floored-block-grid", "Q06", FaultKind::checkpoint, "the block grid lacks the row of a partial block",
          "GPTQModel#2875", Catcher::audit, "q_b_proj", "fp8-block",
          [](EditableCheckpoint& c) {
            auto& scale = c.at(kAttention + "q_b_proj.weight_scale_inv").tensor;
            scale = rows(scale, 0, 1);
          }},
    Fault{"bf16-in-fp8", "Q08", FaultKind::checkpoint, "o_proj is BF16 although nothing excludes it", "vllm#54456",
          Catcher::audit, "o_proj", "fp8-block",
          [](EditableCheckpoint& c) {
            auto& weight = c.at(kAttention + "o_proj.weight").tensor;
            weight = converted(weight, Dtype::bf16);
            drop(c, kAttention + "o_proj.weight_scale_inv");
          }},
    Fault{"fp8-in-bf16", "Q08", FaultKind::checkpoint, "o_proj is excluded and stored in FP8 with a scale", "mratsim#3",
          Catcher::audit, "o_proj", "fp8-block",
          [](EditableCheckpoint& c) {
            c.config["quantization_config"]["modules_to_not_convert"].push_back("model.mtp_layers.0.self_attn.o_proj");
          }},
    Fault{"scale-missing", "Q09", FaultKind::checkpoint, "o_proj's scale is missing", "llm-compressor#1843",
          Catcher::audit, "o_proj.weight_scale_inv", "fp8-block",
          [](EditableCheckpoint& c) { drop(c, kAttention + "o_proj.weight_scale_inv"); }},
    Fault{"expert-scales-missing", "Q09", FaultKind::checkpoint, "the experts' scales are missing: they stay 1",
          "unsloth#6200", Catcher::audit, "w13_weight_scale_inv", "fp8-block",
          [](EditableCheckpoint& c) { drop(c, kMtp + "mlp.experts.gate_up_proj_scale_inv"); }},
    Fault{"one-expert-scale-missing", "Q09", FaultKind::checkpoint, "the MX scale of one expert's up_proj is missing",
          "HYV4MTP", Catcher::audit, "w13_weight_scale", "mxfp8",
          [](EditableCheckpoint& c) { drop(c, kMtp + "mlp.experts.4.up_proj.weight_scale"); }},
    Fault{"orphan-scale", "Q09", FaultKind::checkpoint, "a scale beside the BF16 linear_gate", "unsloth#6200",
          Catcher::audit, "linear_gate", "fp8-block",
          [](EditableCheckpoint& c) {
            Tensor scale = make_tensor(Dtype::f32, {1, 2});
            fill(scale, 1);
            add(c, kAttention + "linear_gate.weight_scale_inv", kAttention + "linear_gate.weight", std::move(scale));
          }},
    Fault{"scale-at-float-min", "Q11", FaultKind::checkpoint, "one row of expert scales is finfo(float32).min",
          "vllm#52501", Catcher::audit, "gate_up_proj_scale_inv", "fp8-block",
          [](EditableCheckpoint& c) {
            transform(c.at(kMtp + "mlp.experts.gate_up_proj_scale_inv").tensor,
                      [](auto& values) { values[9] = std::numeric_limits<float>::lowest(); });
          }},
    Fault{"scale-at-minus-one", "Q11", FaultKind::checkpoint, "a scale cell is -1", "vllm#46264", Catcher::audit,
          "o_proj.weight_scale_inv", "fp8-block",
          [](EditableCheckpoint& c) {
            transform(c.at(kAttention + "o_proj.weight_scale_inv").tensor, [](auto& values) { values[1] = -1; });
          }},
    Fault{"scale-is-nan", "Q11", FaultKind::checkpoint, "a scale cell is NaN", "vllm#52501", Catcher::audit,
          "kv_b_proj.weight_scale_inv", "fp8-block",
          [](EditableCheckpoint& c) {
            transform(c.at(kAttention + "kv_b_proj.weight_scale_inv").tensor,
                      [](auto& values) { values[0] = std::numeric_limits<float>::quiet_NaN(); });
          }},
    Fault{"e8m0-255", "Q11", FaultKind::checkpoint, "an MX scale byte is 255", "HYV4MTP", Catcher::audit,
          "o_proj.weight_scale", "mxfp8",
          [](EditableCheckpoint& c) { c.at(kAttention + "o_proj.weight_scale").tensor.bytes[5] = std::byte{255}; }},
    Fault{"weight-row-of-zeros", "Q11", FaultKind::checkpoint, "a row of o_proj was never written: zeros", "vllm#46264",
          Catcher::audit, "o_proj.weight", "split",
          [](EditableCheckpoint& c) {
            transform(c.at(kAttention + "o_proj.weight").tensor,
                      [](auto& values) { std::fill_n(values.begin() + 128 * 7, 128, 0.0F); });
          }},
    Fault{"weight-is-nan", "Q11", FaultKind::checkpoint, "an element of q_b_proj is NaN", "vllm#52501", Catcher::audit,
          "q_b_proj", "split",
          [](EditableCheckpoint& c) {
            transform(c.at(kAttention + "q_b_proj.weight").tensor,
                      [](auto& values) { values[100] = std::numeric_limits<float>::quiet_NaN(); });
          }},
    Fault{"scale-shape-transposed", "Q12", FaultKind::checkpoint, "a 1x2 scale grid stored as 2x1", "vllm#44630",
          Catcher::audit, "q_a_proj", "fp8-block",
          [](EditableCheckpoint& c) {
            auto& scale = c.at(kAttention + "q_a_proj.weight_scale_inv").tensor;
            scale = transposed(scale);
          }},
    Fault{"exclusion-of-another-prefix", "Q13", FaultKind::checkpoint,
          "the gate's exclusion has a prefix that nothing matches", "sglang#23424", Catcher::audit, "linear_gate",
          "fp8-block",
          [](EditableCheckpoint& c) {
            for (auto& name : c.config["quantization_config"]["modules_to_not_convert"]) {
              if (name == "model.mtp_layers.0.self_attn.linear_gate") name = "mtp.0.self_attn.linear_gate";
            }
          }},
    Fault{"algorithm-says-bf16", "Q14", FaultKind::checkpoint, "mtp_quant_algo says BF16, the tensors are FP8",
          "HYV4MTP", Catcher::audit, "mtp_quant_algo", "fp8-block",
          [](EditableCheckpoint& c) { c.config["mtp_quant_algo"] = "BF16"; }},
    Fault{"e5m2-weight", "", FaultKind::checkpoint, "o_proj's codes are declared E5M2", "HYV4MTP", Catcher::audit,
          "o_proj", "fp8-block",
          [](EditableCheckpoint& c) {
            auto& weight = c.at(kAttention + "o_proj.weight").tensor;
            weight = bytes_as(weight, Dtype::f8_e5m2);
          }},
};

}  // namespace

std::span<const Fault> checkpoint_scale_faults() { return kScaleFaults; }

}  // namespace mtpcheck
