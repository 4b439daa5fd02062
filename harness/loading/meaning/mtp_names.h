#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace mtpcheck {

/// A tensor of an MTP layer: which layer, and the name within it.
struct MtpName {
  std::size_t layer = 0;  ///< from 0
  std::string_view rest;  ///< "self_attn.q_a_proj.weight"
};

/// Both forms of a name, `model.mtp_layers.N.` and `model.layers.{L+N}.`; layer numbers match as a whole (78 is not
/// 780). nullopt for a tensor of the backbone or of nothing.
std::optional<MtpName> mtp_name(std::string_view tensor, std::size_t num_hidden_layers);

/// The tensor without the suffix that makes it a scale: "self_attn.q_a_proj" of "self_attn.q_a_proj.weight_scale_inv".
/// `.scale`, `_scale_inv`, `weight_scale` and `weight_scale_inv` are four names for one thing. nullopt: no scale.
std::optional<std::string_view> stem_of_scale(std::string_view rest);

/// The names under which the scale of `stem` may stand.
inline constexpr std::string_view kScaleSuffixes[] = {".weight_scale_inv", ".weight_scale", ".scale_inv", ".scale",
                                                      "_weight_scale_inv", "_weight_scale", "_scale_inv", "_scale"};

/// True for the KV cache's scales, in whatever module they stand.
bool is_kv_scale(std::string_view rest);

/// True for static scales of activations.
bool is_input_scale(std::string_view rest);

}  // namespace mtpcheck
