#include "harness/loading/vllm/names.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "harness/loading/symbolic/python_text.h"

namespace mtpcheck::vllm {
namespace {

constexpr std::string_view kMtpLayers = "model.mtp_layers.";
constexpr std::string_view kLayers = "model.layers.";

// Decimal digits up to the next dot, or up to the end.
std::string_view digits(std::string_view text) {
  const auto end = std::ranges::find_if(text, [](char c) { return c < '0' || c > '9'; });
  return text.substr(0, static_cast<std::size_t>(end - text.begin()));
}

// nullopt for an empty string and for numbers that no layer can have.
std::optional<std::size_t> number(std::string_view text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string layer_prefix(std::size_t layer) { return std::string(kLayers) + std::to_string(layer) + "."; }

// One of `letters` between `before` and `after` at the end of the name.
std::optional<char> letter_at_end(std::string_view name, std::string_view before, std::string_view letters,
                                  std::string_view after) {
  if (!name.ends_with(after)) return std::nullopt;
  name.remove_suffix(after.size());
  if (name.empty() || !contains(letters, name.substr(name.size() - 1))) return std::nullopt;
  const char letter = name.back();
  name.remove_suffix(1);
  if (!name.ends_with(before)) return std::nullopt;
  return letter;
}

std::string with_end(std::string_view name, std::size_t cut, std::string_view end) {
  return std::string(name.substr(0, name.size() - cut)) + std::string(end);
}

}  // namespace

std::optional<LayerName> mtp_layer_name(std::string_view tensor, std::size_t num_hidden_layers, std::size_t num_nextn) {
  if (tensor.starts_with(kMtpLayers)) {
    const std::string_view index = digits(tensor.substr(kMtpLayers.size()));
    const std::string_view after = tensor.substr(kMtpLayers.size() + index.size());
    const std::optional<std::size_t> layer = number(index);
    if (!layer || !after.starts_with('.')) return std::nullopt;
    const std::string from = std::string(kMtpLayers) + std::string(index) + ".";
    return LayerName{num_hidden_layers + *layer, replace_all(tensor, from, layer_prefix(num_hidden_layers + *layer))};
  }
  if (num_nextn < 1 || !tensor.starts_with(kLayers)) return std::nullopt;
  const std::string_view index = digits(tensor.substr(kLayers.size()));
  const std::optional<std::size_t> layer = number(index);
  // "model.layers.078." is not layer 78: the engine compares text.
  if (!layer || (index.size() > 1 && index.front() == '0')) return std::nullopt;
  if (!tensor.substr(kLayers.size() + index.size()).starts_with('.')) return std::nullopt;
  const std::size_t accepted = std::max<std::size_t>(num_nextn - 1, 1);
  if (*layer < num_hidden_layers || *layer - num_hidden_layers >= accepted) return std::nullopt;
  return LayerName{*layer, std::string(tensor)};
}

std::optional<std::string> draft_name(const LayerName& tensor) {
  const std::string prefix = layer_prefix(tensor.layer);
  if (contains(tensor.name, prefix + "embed_tokens") || contains(tensor.name, prefix + "shared_head")) {
    return std::nullopt;
  }
  constexpr std::array<std::string_view, 4> kOfTheLayer{"enorm", "hnorm", "eh_proj", "final_layernorm"};
  const bool of_the_layer =
      std::ranges::any_of(kOfTheLayer, [&](std::string_view word) { return contains(tensor.name, word); });
  return of_the_layer ? tensor.name : replace_all(tensor.name, prefix, prefix + "mtp_block.");
}

std::optional<std::string> shared_target(std::string_view tensor, std::size_t num_hidden_layers) {
  if (tensor == "model.embed_tokens.weight") return std::string(tensor);
  if (tensor == "lm_head.weight") return layer_prefix(num_hidden_layers) + "shared_head.head.weight";
  return std::nullopt;
}

std::optional<std::string> kv_scale_target(const std::string& name, bool has_mla) {
  if (name.ends_with(".kv_scale")) return replace_all(name, ".kv_scale", ".attn.k_scale");
  constexpr std::array<std::string_view, 9> kEnds{".k_scale",      ".v_scale",       ".q_scale",
                                                  ".k_zero_point", ".v_zero_point",  ".q_zero_point",
                                                  ".q.scale",      ".k_cache.scale", ".v_cache.scale"};
  if (std::ranges::none_of(kEnds, [&](std::string_view end) { return name.ends_with(end); })) return std::nullopt;

  const auto scale = [](std::string_view module, char letter) { return std::string(module) + "." + letter + "_scale"; };
  // `.self_attn.{k,v}_proj.{k,v}_scale` is the only form that follows the attention module's name.
  if (const auto letter = letter_at_end(name, ".", "kv", "_scale")) {
    for (const char projection : {'k', 'v'}) {
      const std::string end = std::string(".self_attn.") + projection + "_proj." + *letter + "_scale";
      if (name.ends_with(end)) {
        return with_end(name, end.size(), scale(has_mla ? ".self_attn.mla_attn.mla_attn" : ".self_attn.attn", *letter));
      }
      const std::string mixer = std::string(".mixer.") + projection + "_proj." + *letter + "_scale";
      if (name.ends_with(mixer)) return with_end(name, mixer.size(), scale(".mixer.attn", *letter));
    }
    for (const std::string_view fused : {".self_attn.qkv_proj.", ".self_attn.qkqkv_proj."}) {
      const std::string end = std::string(fused) + *letter + "_scale";
      if (name.ends_with(end)) return with_end(name, end.size(), scale(".self_attn.attn", *letter));
    }
  }
  if (constexpr std::string_view kQuery = ".self_attn.q.scale"; name.ends_with(kQuery)) {
    return with_end(name, kQuery.size(), ".self_attn.attn.q_scale");
  }
  if (const auto letter = letter_at_end(name, ".self_attn.", "kv", "_cache.scale")) {
    return with_end(name, std::string_view(".self_attn.k_cache.scale").size(), scale(".self_attn.attn", *letter));
  }
  if (const auto letter = letter_at_end(name, ".", "qkv", "_scale")) {
    return with_end(name, std::string_view(".k_scale").size(), scale(".attn", *letter));
  }
  if (const auto letter = letter_at_end(name, ".", "qkv", "_zero_point")) {
    return with_end(name, std::string_view(".k_zero_point").size(), std::string(".attn.") + *letter + "_zero_point");
  }
  return std::nullopt;
}

}  // namespace mtpcheck::vllm
