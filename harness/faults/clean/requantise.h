#pragma once

#include <cstdint>
#include <string_view>

#include "harness/faults/edit/editable_checkpoint.h"

namespace mtpcheck {

/// How the weights of a clean checkpoint are stored.
enum class WeightFormat : std::uint8_t {
  bf16,
  fp8_block,    ///< E4M3, float32 weight_scale_inv per 128×128
  fp8_channel,  ///< E4M3, float32 weight_scale per row, by compressed-tensors' config
  fp8_tensor,   ///< E4M3, float32 weight_scale and input_scale per tensor, by ModelOpt's config
  mxfp8,        ///< E4M3, an E8M0 byte weight_scale per 1×32, by ModelOpt's config
};

std::string_view to_string(WeightFormat format);

/// Whether vLLM keeps every weight as it is stored. It does not of FP8 blocks: the indexer's wk is turned into BF16, to
/// be merged with weights_proj.
bool kept_as_stored(WeightFormat format);

/// Turns packed experts [E, 2I, H] into one tensor an expert and projection.
void split_experts(EditableCheckpoint& checkpoint);

/// The contrary, scales included; formats with a scalar a tensor have no packed form.
void pack_experts(EditableCheckpoint& checkpoint);

/// Quantises the linear layers of a BF16 checkpoint with split experts, and says so in its config, as an exporter does:
/// every scale takes in its largest weight, embedding, head, eh_proj, router and weights_proj stay in BF16.
void quantise(EditableCheckpoint& checkpoint, WeightFormat format);

}  // namespace mtpcheck
