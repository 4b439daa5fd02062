#pragma once

#include <string>

namespace mtpcheck {

/// Where the draft head's tensors lie in the checkpoints that faults are injected into.
inline const std::string kMtp = "model.mtp_layers.0.";
inline const std::string kAttention = kMtp + "self_attn.";

}  // namespace mtpcheck
