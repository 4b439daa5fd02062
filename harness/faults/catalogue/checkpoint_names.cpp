// Names and coverage: tensors that are absent, misnamed, doubled or of the wrong layer.

#include <array>
#include <cstring>

#include "harness/faults/catalogue/fault.h"
#include "harness/faults/catalogue/mtp_prefix.h"

namespace mtpcheck {
namespace {

constexpr std::array kNameFaults{
    Fault{"head-misnamed", "N01", FaultKind::checkpoint, "lm_head.weight is called head.weight", "vllm#43456",
          Catcher::audit, "shared_head.head.weight", "split",
          [](EditableCheckpoint& c) { rename(c, "lm_head.weight", "head.weight"); }},
    Fault{"embedding-misnamed", "N01", FaultKind::checkpoint, "the embedding is called embed.weight", "vllm#43456",
          Catcher::audit, "embed_tokens.weight", "split",
          [](EditableCheckpoint& c) { rename(c, "model.embed_tokens.weight", "embed.weight"); }},
    Fault{"mtp-absent", "N02", FaultKind::checkpoint, "no tensor of the MTP layer at all", "vllm#35548", Catcher::audit,
          "model.layers.4", "split",
          [](EditableCheckpoint& c) {
            std::erase_if(c.tensors, [](const EditableTensor& t) { return t.name.starts_with(kMtp); });
          }},
    Fault{"embedding-absent", "N03", FaultKind::checkpoint, "the embedding is neither loaded nor shared", "vllm#34385",
          Catcher::audit, "embed_tokens.weight", "split",
          [](EditableCheckpoint& c) { drop(c, "model.embed_tokens.weight"); }},
    Fault{"final-norm-misnamed", "N05", FaultKind::checkpoint, "final_layernorm goes by the name shared_head.norm",
          "sglang#30331", Catcher::audit, "final_layernorm.weight", "split",
          [](EditableCheckpoint& c) { rename(c, kMtp + "final_layernorm.weight", kMtp + "shared_head.norm.weight"); }},
    Fault{"shared-experts-misnamed", "N06", FaultKind::checkpoint, "shared_experts is called shared_mlp",
          "sglang#30816", Catcher::audit, "shared_experts", "split",
          [](EditableCheckpoint& c) { rename_prefix(c, kMtp + "mlp.shared_experts.", kMtp + "mlp.shared_mlp."); }},
    Fault{
        "gate-misnamed", "N06", FaultKind::checkpoint, "linear_gate is called output_gate", "ROCm/ATOM#755",
        Catcher::audit, "linear_gate", "split",
        [](EditableCheckpoint& c) { rename(c, kAttention + "linear_gate.weight", kAttention + "output_gate.weight"); }},
    Fault{"two-layers-in-one", "N08", FaultKind::checkpoint, "a second copy of enorm under the other layer form wins",
          "sglang#25368", Catcher::audit, "enorm.weight", "split",
          [](EditableCheckpoint& c) {
            Tensor other = c.at(kMtp + "enorm.weight").tensor;
            transform(other, [](auto& values) {
              for (auto& value : values) value *= 2;
            });
            add(c, "model.layers.4.enorm.weight", kMtp + "enorm.weight", std::move(other));
          }},
    Fault{"layer-of-another-number", "N09", FaultKind::checkpoint, "the norm is under layer 40, which begins with 4",
          "ROCm/ATOM#640", Catcher::audit, "enorm.weight", "split",
          [](EditableCheckpoint& c) { rename(c, kMtp + "enorm.weight", "model.layers.40.enorm.weight"); }},
    Fault{"more-layers-declared", "N12", FaultKind::checkpoint, "config declares two MTP layers, the files hold one",
          "Model-Optimizer#1532", Catcher::audit, "model.layers.5", "split",
          [](EditableCheckpoint& c) { c.config["num_nextn_predict_layers"] = 2; }},
    Fault{"expert-missing", "N14", FaultKind::checkpoint, "all of expert 3 is missing", "vllm#35298", Catcher::audit,
          "w13_weight", "split",
          [](EditableCheckpoint& c) {
            for (const char* part : {"gate_proj", "up_proj", "down_proj"}) {
              drop(c, kMtp + "mlp.experts.3." + part + ".weight");
            }
          }},
    Fault{"up-half-missing", "N14", FaultKind::checkpoint, "up_proj of expert 5 is missing", "HYV4MTP", Catcher::audit,
          "w13_weight", "split", [](EditableCheckpoint& c) { drop(c, kMtp + "mlp.experts.5.up_proj.weight"); }},
    Fault{"shared-up-missing", "N14", FaultKind::checkpoint, "up_proj of the shared expert is missing", "HYV4MTP",
          Catcher::audit, "shared_experts.gate_up_proj.weight", "split",
          [](EditableCheckpoint& c) { drop(c, kMtp + "mlp.shared_experts.up_proj.weight"); }},
    Fault{"kv-a-missing", "N14", FaultKind::checkpoint, "kv_a_proj_with_mqa, half of a fused projection, is missing",
          "HYV4MTP", Catcher::audit, "fused_qkv_a_proj.weight", "split",
          [](EditableCheckpoint& c) { drop(c, kAttention + "kv_a_proj_with_mqa.weight"); }},
    Fault{"indexer-wk-missing", "N14", FaultKind::checkpoint, "the indexer's wk is missing", "HYV4MTP", Catcher::audit,
          "wk_weights_proj.weight", "split", [](EditableCheckpoint& c) { drop(c, kAttention + "indexer.wk.weight"); }},
    Fault{"packed-suffix", "N15", FaultKind::checkpoint, "packed experts are called gate_up_proj.weight", "HYV4MTP",
          Catcher::audit, "w13_weight", "bf16",
          [](EditableCheckpoint& c) {
            rename(c, kMtp + "mlp.experts.gate_up_proj", kMtp + "mlp.experts.gate_up_proj.bias");
          }},
    Fault{"wrong-prefix", "N16", FaultKind::checkpoint, "every tensor is under mtp.layers.0.", "HYV4MTP",
          Catcher::audit, "model.layers.4", "split",
          [](EditableCheckpoint& c) { rename_prefix(c, kMtp, "mtp.layers.0."); }},
    Fault{"multimodal-prefix", "N16", FaultKind::checkpoint, "every tensor is under language_model.", "HYV4MTP",
          Catcher::audit, "model.layers.4", "split",
          [](EditableCheckpoint& c) { rename_prefix(c, kMtp, "language_model." + kMtp); }},
    Fault{"second-head-unfilled", "N18", FaultKind::checkpoint, "two whole MTP layers, one lm_head", "HYV4MTP",
          Catcher::audit, "model.layers.5.shared_head.head.weight", "split",
          [](EditableCheckpoint& c) {
            c.config["num_nextn_predict_layers"] = 2;
            const auto tensors = c.tensors;
            for (auto tensor : tensors) {
              if (!tensor.name.starts_with(kMtp)) continue;
              tensor.name = "model.mtp_layers.1." + tensor.name.substr(kMtp.size());
              c.tensors.push_back(std::move(tensor));
            }
          }},
    Fault{"experts-dropped-on-export", "N19", FaultKind::checkpoint, "only the last expert was exported",
          "Megatron-LM#5844", Catcher::audit, "w13_weight", "split",
          [](EditableCheckpoint& c) {
            std::erase_if(c.tensors, [](const EditableTensor& t) {
              return t.name.starts_with(kMtp + "mlp.experts.") && !t.name.starts_with(kMtp + "mlp.experts.7.");
            });
          }},
    Fault{"norm-missing", "", FaultKind::checkpoint, "hnorm is missing: it stays 1", "HYV4MTP", Catcher::audit,
          "hnorm.weight", "fp8-block", [](EditableCheckpoint& c) { drop(c, kMtp + "hnorm.weight"); }},
    Fault{"sink-missing", "A08", FaultKind::checkpoint, "the sinks are missing: they stay -inf", "vllm#54568",
          Catcher::audit, "learnable_sink_param", "split",
          [](EditableCheckpoint& c) { drop(c, kAttention + "learnable_sink_param"); }},
    Fault{"sink-of-fewer-heads", "A08", FaultKind::checkpoint, "the sinks are sharded: two of four heads", "vllm#54568",
          Catcher::audit, "learnable_sink_param", "split",
          [](EditableCheckpoint& c) {
            auto& sink = c.at(kAttention + "learnable_sink_param").tensor;
            sink = rows(sink, 0, 2);
          }},
    Fault{"bias-missing", "A01", FaultKind::checkpoint, "e_score_correction_bias is missing", "sglang#8729",
          Catcher::audit, "expert_bias", "split",
          [](EditableCheckpoint& c) { drop(c, kMtp + "mlp.gate.e_score_correction_bias"); }},
    Fault{"experts-twice", "", FaultKind::checkpoint, "experts packed and split in one checkpoint, with other numbers",
          "HYV4MTP", Catcher::audit, "w13_weight", "bf16",
          [](EditableCheckpoint& c) {
            Tensor gate = rows(slab(c.at(kMtp + "mlp.experts.gate_up_proj").tensor, 2), 0, 128);
            transform(gate, [](auto& values) {
              for (auto& value : values) value = -value;
            });
            add(c, kMtp + "mlp.experts.2.gate_proj.weight", kMtp + "mlp.experts.gate_up_proj", std::move(gate));
          }},
    Fault{"expert-short", "", FaultKind::checkpoint, "gate_proj of expert 1 lacks its last 16 rows", "HYV4MTP",
          Catcher::audit, "w13_weight", "split",
          [](EditableCheckpoint& c) {
            auto& gate = c.at(kMtp + "mlp.experts.1.gate_proj.weight").tensor;
            gate = rows(gate, 0, 112);
          }},
    Fault{"q-b-tall", "", FaultKind::checkpoint, "q_b_proj has 16 rows too many: the engine cuts them", "HYV4MTP",
          Catcher::audit, "q_b_proj", "split",
          [](EditableCheckpoint& c) {
            auto& q_b = c.at(kAttention + "q_b_proj.weight").tensor;
            const Tensor more = rows(q_b, 0, 16);
            q_b.bytes.insert(q_b.bytes.begin(), more.bytes.begin(), more.bytes.end());
            q_b.shape[0] += 16;
          }},
    Fault{"dense-last-layer", "", FaultKind::checkpoint,
          "the last backbone layer is dense: the draft loses its experts", "HYV4MTP", Catcher::audit, "experts",
          "split", [](EditableCheckpoint& c) { c.config["mlp_layer_types"].back() = "dense"; }},
    Fault{"full-attention-last-layer", "", FaultKind::checkpoint,
          "the last backbone layer is full attention: no indexer", "HYV4MTP", Catcher::audit, "indexer", "split",
          [](EditableCheckpoint& c) { c.config["layer_types"].back() = "full_attention"; }},
};

}  // namespace

std::span<const Fault> checkpoint_name_faults() { return kNameFaults; }

}  // namespace mtpcheck
