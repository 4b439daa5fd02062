#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

/// How vLLM's HYV4MTP names things: which checkpoint tensors are the draft head's, and what they are called there.
namespace mtpcheck::vllm {

/// A tensor of an MTP layer under the draft model's name of that layer, `model.layers.{L+i}.…`.
struct LayerName {
  std::size_t layer;  ///< L + i
  std::string name;
};

/// Which MTP layer a checkpoint tensor belongs to.
///
///   model.mtp_layers.N.…       layer L+N, whatever N is
///   model.layers.{L+i}.…       layer L+i, for i below max(num_nextn − 1, 1), and never when num_nextn is 0
///   anything else              nullopt: not the head's
std::optional<LayerName> mtp_layer_name(std::string_view tensor, std::size_t num_hidden_layers, std::size_t num_nextn);

/// The parameter's name inside the draft model: enorm, hnorm, eh_proj and final_layernorm belong to the layer, all else
/// to its `mtp_block`. nullopt for the layer's own embed_tokens and shared_head, which are skipped.
std::optional<std::string> draft_name(const LayerName& tensor);

/// The parameter that a shared tensor of the target feeds (`model.embed_tokens.weight`, `lm_head.weight`); the head
/// goes to the first MTP layer only. nullopt for every other tensor.
std::optional<std::string> shared_target(std::string_view tensor, std::size_t num_hidden_layers);

/// What became of the name of a KV-cache scale.
struct KvScaleName {
  std::optional<std::string> name;  ///< to go on with; nullopt: dropped
  std::string deprecation;          ///< said first, where not empty
  std::string warning;              ///< said when dropped
};

/// The remapping of k/v/q scales and zero points. `exists(name)` tells whether the draft model has such a parameter;
/// `has_mla` whether any of its names contains `mla_attn`.
template <class Exists>
KvScaleName remap_kv_scale(const std::string& name, bool has_mla, const Exists& exists);

/// The name that the remapping aims at, parameters or not; nullopt where the name is no KV-cache scale.
std::optional<std::string> kv_scale_target(const std::string& name, bool has_mla);

template <class Exists>
KvScaleName remap_kv_scale(const std::string& name, bool has_mla, const Exists& exists) {
  if (exists(name)) return {name, {}, {}};
  const std::optional<std::string> target = kv_scale_target(name, has_mla);
  if (!target) return {name, {}, {}};
  KvScaleName result;
  const bool deprecated = name.ends_with(".kv_scale");
  if (deprecated) {
    result.deprecation =
        "DEPRECATED. Found kv_scale in the checkpoint. This format is deprecated in favor of separate k_scale and "
        "v_scale tensors and will be removed in a future release. Functionally, we will remap kv_scale to k_scale and "
        "duplicate k_scale to v_scale";
  }
  if (exists(*target)) {
    result.name = *target;
  } else {
    const std::string kind = deprecated ? "kv_scale" : name.substr(name.rfind('.') + 1);
    result.warning = "Found " + kind + " in the checkpoint (e.g. " + name +
                     "), but not found the expected name in the model (e.g. " + *target + "). " + kind +
                     " is not loaded.";
  }
  return result;
}

}  // namespace mtpcheck::vllm
