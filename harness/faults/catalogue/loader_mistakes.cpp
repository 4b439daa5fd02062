// Loaders that read sound files wrongly. Shapes and names are in order, so only numbers can tell: compare.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "harness/faults/catalogue/fault.h"
#include "harness/faults/catalogue/mtp_prefix.h"

namespace mtpcheck {
namespace {

const std::string kGateUp = kMtp + "mlp.experts.gate_up_proj";
const std::string kDown = kMtp + "mlp.experts.down_proj";

// Byte permutation of the row-blocks of each slab of a packed tensor [E, rows, cols]: `source(row)` gives the row to
// copy.
template <class Source>
void permute_rows(Tensor& tensor, Source source) {
  const std::size_t slabs = tensor.shape[0];
  const std::size_t rows = tensor.shape[1];
  const std::size_t row_bytes = tensor.bytes.size() / (slabs * rows);
  const auto before = tensor.bytes;
  for (std::size_t s = 0; s < slabs; ++s) {
    for (std::size_t r = 0; r < rows; ++r) {
      std::memcpy(tensor.bytes.data() + (s * rows + r) * row_bytes,
                  before.data() + (s * rows + source(r, rows)) * row_bytes, row_bytes);
    }
  }
}

std::size_t other_half(std::size_t row, std::size_t rows) { return (row + rows / 2) % rows; }

void rotate_slabs(Tensor& tensor) {
  const auto slab_bytes = static_cast<std::ptrdiff_t>(tensor.bytes.size() / tensor.shape[0]);
  std::rotate(tensor.bytes.begin(), tensor.bytes.begin() + slab_bytes, tensor.bytes.end());
}

void zero_expert(EditableCheckpoint& c, std::size_t expert) {
  for (const auto& name : {kGateUp, kDown}) {
    Tensor& tensor = c.at(name).tensor;
    const std::size_t slab = tensor.bytes.size() / tensor.shape[0];
    std::memset(tensor.bytes.data() + expert * slab, 0, slab);
  }
}

void set_all(EditableCheckpoint& c, const std::string& suffix, float value, const std::string& only = {}) {
  for (auto& tensor : c.tensors) {
    if (!tensor.name.ends_with(suffix) || tensor.name.find(only) == std::string::npos) continue;
    transform(tensor.tensor, [value](auto& values) { std::ranges::fill(values, value); });
  }
}

// A grid read column-major: the cells are transposed, the shape stays.
void transpose_cells(EditableCheckpoint& c, const std::string& suffix) {
  for (auto& tensor : c.tensors) {
    if (!tensor.name.ends_with(suffix) || tensor.tensor.shape.size() < 2) continue;
    const Shape shape = tensor.tensor.shape;
    Tensor read = tensor.tensor;
    std::swap(read.shape[shape.size() - 2], read.shape.back());
    tensor.tensor = transposed(read);
  }
}

constexpr std::array kLoaderFaults{
    Fault{"gate-up-swapped", "E01", FaultKind::loader, "gate and up of the routed experts exchanged", "ATOM#885",
          Catcher::compare, "experts_out", "bf16",
          [](EditableCheckpoint& c) { permute_rows(c.at(kGateUp).tensor, other_half); }},
    Fault{"gate-up-swapped-everywhere", "E01", FaultKind::loader, "gate and up of routed and shared experts exchanged",
          "vllm#29273", Catcher::compare, "experts_out", "bf16",
          [](EditableCheckpoint& c) {
            permute_rows(c.at(kGateUp).tensor, other_half);
            exchange(c, kMtp + "mlp.shared_experts.gate_proj.weight", kMtp + "mlp.shared_experts.up_proj.weight");
          }},
    Fault{"gate-up-interleaved", "E01", FaultKind::loader, "packed rows read as gate, up, gate, up", "vllm#29273",
          Catcher::compare, "experts_out", "bf16",
          [](EditableCheckpoint& c) {
            permute_rows(c.at(kGateUp).tensor,
                         [](std::size_t r, std::size_t n) { return r < n / 2 ? 2 * r : 2 * (r - n / 2) + 1; });
          }},
    Fault{"packed-transposed", "E02", FaultKind::loader, "the square packed tensor read transposed",
          "transformers#47031", Catcher::compare, "experts_out", "bf16",
          [](EditableCheckpoint& c) {
            auto& tensor = c.at(kGateUp).tensor;
            tensor = transposed(tensor);
          }},
    Fault{"packed-chunked-on-columns", "E02", FaultKind::loader, "packed tensor chunked along its last dimension",
          "vllm#47874", Catcher::compare, "experts_out", "bf16",
          [](EditableCheckpoint& c) {
            // [E, 2I, H] cut to two [E, 2I, H/2], each read as [E, I, H]
            Tensor& tensor = c.at(kGateUp).tensor;
            const std::size_t half = tensor.shape[2] / 2 * 2;  // bytes of half a row, two an element
            const std::size_t slab = tensor.shape[1] * tensor.shape[2] * 2;
            const auto before = tensor.bytes;
            for (std::size_t e = 0; e < tensor.shape[0]; ++e) {
              for (std::size_t r = 0; r < tensor.shape[1]; ++r) {
                const auto* const row = before.data() + e * slab + r * 2 * half;
                std::memcpy(tensor.bytes.data() + e * slab + r * half, row, half);
                std::memcpy(tensor.bytes.data() + e * slab + slab / 2 + r * half, row + half, half);
              }
            }
          }},
    Fault{"experts-rotated", "E04", FaultKind::loader, "expert e holds the weights of e+1: local taken for global ids",
          "vllm#47158", Catcher::compare, "experts_out", "bf16",
          [](EditableCheckpoint& c) {
            rotate_slabs(c.at(kGateUp).tensor);
            rotate_slabs(c.at(kDown).tensor);
          }},
    Fault{"down-of-another-expert", "E05", FaultKind::loader, "down_proj of the next expert", "transformers#45473",
          Catcher::compare, "experts_out", "bf16", [](EditableCheckpoint& c) { rotate_slabs(c.at(kDown).tensor); }},
    Fault{"expert-zeroed", "N14", FaultKind::loader, "one expert left at zero", "vllm#35298", Catcher::compare,
          "experts_out", "bf16", [](EditableCheckpoint& c) { zero_expert(c, 6); }},
    Fault{"idle-expert-zeroed", "N14", FaultKind::loader, "the expert that is used least left at zero", "vllm#35298",
          Catcher::compare, "experts_out", "bf16", [](EditableCheckpoint& c) { zero_expert(c, 3); }},
    Fault{"sinks-at-zero", "A08", FaultKind::loader, "the sinks left at 0", "vllm#54568", Catcher::compare,
          "attn_probs", "bf16", [](EditableCheckpoint& c) { set_all(c, "learnable_sink_param", 0.0F); }},
    Fault{"index-weights-at-zero", "N14", FaultKind::loader,
          "the indexer's weights_proj left at zero: the lowest positions win", "HYV4MTP", Catcher::compare,
          "indexer_weights", "bf16", [](EditableCheckpoint& c) { set_all(c, "indexer.weights_proj.weight", 0.0F); }},
    Fault{"q-a-kv-a-exchanged", "", FaultKind::loader, "fused as [kv_a; q_a], read as [q_a; kv_a]", "HYV4MTP",
          Catcher::compare, "q_a", "bf16",
          [](EditableCheckpoint& c) {
            Tensor& q = c.at(kAttention + "q_a_proj.weight").tensor;
            Tensor& kv = c.at(kAttention + "kv_a_proj_with_mqa.weight").tensor;
            auto all = kv.bytes;
            all.insert(all.end(), q.bytes.begin(), q.bytes.end());
            std::memcpy(q.bytes.data(), all.data(), q.bytes.size());
            std::memcpy(kv.bytes.data(), all.data() + q.bytes.size(), kv.bytes.size());
          }},
    Fault{"enorm-hnorm-exchanged", "P02", FaultKind::loader, "enorm and hnorm exchanged", "sglang#3798",
          Catcher::compare, "enorm", "bf16",
          [](EditableCheckpoint& c) { exchange(c, kMtp + "enorm.weight", kMtp + "hnorm.weight"); }},
    Fault{"final-norm-ones", "N05", FaultKind::loader, "final_layernorm left at 1", "sglang#30331", Catcher::compare,
          "final_layernorm", "bf16",
          [](EditableCheckpoint& c) {
            transform(c.at(kMtp + "final_layernorm.weight").tensor,
                      [](auto& values) { std::ranges::fill(values, 1.0F); });
          }},
    Fault{"head-is-embedding", "N04", FaultKind::loader, "lm_head replaced by the embedding, as if tied", "vllm#38493",
          Catcher::compare, "logits", "bf16",
          [](EditableCheckpoint& c) { c.at("lm_head.weight").tensor = c.at("model.embed_tokens.weight").tensor; }},
    Fault{"router-rows-reversed", "E05", FaultKind::loader, "router rows in another order than the experts",
          "transformers#45473", Catcher::compare, "router_logits", "bf16",
          [](EditableCheckpoint& c) {
            auto& router = c.at(kMtp + "mlp.gate.weight").tensor;
            const Tensor before = router;
            const std::size_t row = router.bytes.size() / 8;
            for (std::size_t e = 0; e < 8; ++e)
              std::memcpy(router.bytes.data() + e * row, before.bytes.data() + (7 - e) * row, row);
          }},
    Fault{"kv-b-heads-grouped", "", FaultKind::loader, "kv_b_proj read as all keys, then all values", "HYV4MTP",
          Catcher::compare, "attn_probs", "bf16",
          [](EditableCheckpoint& c) {
            // heads of (32 nope + 32 v) rows read as 4 heads of nope, then 4 of v
            auto& kv_b = c.at(kAttention + "kv_b_proj.weight").tensor;
            const Tensor before = kv_b;
            const std::size_t row = kv_b.bytes.size() / 256;
            for (std::size_t head = 0; head < 4; ++head) {
              for (std::size_t r = 0; r < 64; ++r) {
                const std::size_t from = r < 32 ? head * 32 + r : 128 + head * 32 + (r - 32);
                std::memcpy(kv_b.bytes.data() + (head * 64 + r) * row, before.bytes.data() + from * row, row);
              }
            }
          }},
    Fault{"scales-ignored", "Q03", FaultKind::loader, "every block scale taken as 1", "omlx#2159", Catcher::compare,
          "q_a", "fp8-block", [](EditableCheckpoint& c) { set_all(c, "_scale_inv", 1.0F); }},
    Fault{"expert-scales-ignored", "Q09", FaultKind::loader, "the experts' scales taken as 1", "unsloth#6200",
          Catcher::compare, "experts_out", "fp8-block",
          [](EditableCheckpoint& c) { set_all(c, "_scale_inv", 1.0F, ".mlp.experts."); }},
    Fault{"scales-inverted", "Q01", FaultKind::loader, "divided by the scales instead of multiplied", "vllm#43455",
          Catcher::compare, "q_a", "fp8-block",
          [](EditableCheckpoint& c) {
            for (auto& tensor : c.tensors) {
              if (!tensor.name.ends_with("_scale_inv")) continue;
              transform(tensor.tensor, [](auto& values) {
                for (auto& value : values) value = 1 / value;
              });
            }
          }},
    Fault{"scales-transposed", "Q12", FaultKind::loader, "block grids read column-major", "vllm#44630",
          Catcher::compare, "experts_out", "fp8-block",
          [](EditableCheckpoint& c) { transpose_cells(c, "_scale_inv"); }},
    Fault{"gate-up-scales-exchanged", "Q07", FaultKind::loader, "the experts' scales of gate and up exchanged",
          "vllm#52997", Catcher::compare, "experts_out", "fp8-block",
          [](EditableCheckpoint& c) {
            permute_rows(c.at(kMtp + "mlp.experts.gate_up_proj_scale_inv").tensor, other_half);
          }},
    Fault{"expert-scales-tiny", "Q11", FaultKind::loader, "the experts' scales at float32 tiny: they vanish",
          "vllm#46264", Catcher::compare, "experts_out", "fp8-block",
          [](EditableCheckpoint& c) { set_all(c, "_scale_inv", 1.17549435e-38F, ".mlp.experts."); }},
    Fault{
        "expert-scales-at-float-min", "Q11", FaultKind::loader, "the experts' scales left at finfo(float32).min",
        "vllm#52501", Catcher::compare, "experts_out", "fp8-block",
        [](EditableCheckpoint& c) { set_all(c, "_scale_inv", std::numeric_limits<float>::lowest(), ".mlp.experts."); }},
    Fault{"scale-rounded-after", "Q10", FaultKind::loader, "scales rounded to powers of two after quantising",
          "transformers#46763", Catcher::compare, "q_a", "fp8-block",
          [](EditableCheckpoint& c) {
            for (auto& tensor : c.tensors) {
              if (!tensor.name.ends_with("_scale_inv")) continue;
              transform(tensor.tensor, [](auto& values) {
                for (auto& value : values) value = std::exp2(std::ceil(std::log2(value)));
              });
            }
          }},
    Fault{"e8m0-bias-128", "Q03", FaultKind::loader, "E8M0 read with bias 128: every weight halved", "sglang#13067",
          Catcher::compare, "q_a", "mxfp8",
          [](EditableCheckpoint& c) {
            for (auto& tensor : c.tensors) {
              if (!tensor.name.ends_with("weight_scale")) continue;
              transform(tensor.tensor, [](auto& values) {
                for (auto& value : values) value -= 1;
              });
            }
          }},
    Fault{"mx-scales-transposed", "Q12", FaultKind::loader, "MX groups read column-major", "vllm#44630",
          Catcher::compare, "q_a", "mxfp8", [](EditableCheckpoint& c) { transpose_cells(c, "weight_scale"); }},
    Fault{"mx-scales-ignored", "Q05", FaultKind::loader, "MX scales taken as 1", "ROCm/ATOM#1009", Catcher::compare,
          "q_a", "mxfp8", [](EditableCheckpoint& c) { set_all(c, "weight_scale", 127.0F); }},
    Fault{"sinks-of-other-heads", "A08", FaultKind::loader, "the sinks of the other half of the heads", "vllm#54568",
          Catcher::compare, "attn_probs", "bf16",
          [](EditableCheckpoint& c) {
            auto& sink = c.at(kAttention + "learnable_sink_param").tensor;
            std::rotate(sink.bytes.begin(), sink.bytes.begin() + 8, sink.bytes.end());
          }},
};

}  // namespace

std::span<const Fault> loader_faults() { return kLoaderFaults; }

}  // namespace mtpcheck
