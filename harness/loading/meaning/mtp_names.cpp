#include "harness/loading/meaning/mtp_names.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace mtpcheck {
namespace {

// Reads "N." off the front.
std::optional<std::size_t> take_number(std::string_view& text) {
  const auto dot = text.find('.');
  if (dot == std::string_view::npos || dot == 0) return std::nullopt;
  std::size_t number = 0;
  const auto [at, error] = std::from_chars(text.data(), text.data() + dot, number);
  if (error != std::errc{} || at != text.data() + dot) return std::nullopt;
  text.remove_prefix(dot + 1);
  return number;
}

}  // namespace

std::optional<MtpName> mtp_name(std::string_view tensor, std::size_t num_hidden_layers) {
  constexpr std::string_view kMtpForm = "model.mtp_layers.";
  constexpr std::string_view kLayerForm = "model.layers.";
  const bool mtp_form = tensor.starts_with(kMtpForm);
  if (!mtp_form && !tensor.starts_with(kLayerForm)) return std::nullopt;
  tensor.remove_prefix(mtp_form ? kMtpForm.size() : kLayerForm.size());
  const auto number = take_number(tensor);
  if (!number || tensor.empty()) return std::nullopt;
  if (mtp_form) return MtpName{*number, tensor};
  if (*number < num_hidden_layers) return std::nullopt;
  return MtpName{*number - num_hidden_layers, tensor};
}

std::optional<std::string_view> stem_of_scale(std::string_view rest) {
  for (const std::string_view suffix : kScaleSuffixes) {
    if (rest.size() > suffix.size() && rest.ends_with(suffix)) return rest.substr(0, rest.size() - suffix.size());
  }
  return std::nullopt;
}

bool is_kv_scale(std::string_view rest) {
  constexpr std::array<std::string_view, 7> kScales{"k_scale",  "v_scale",       "q_scale",      "prob_scale",
                                                    "kv_scale", "k_cache.scale", "v_cache.scale"};
  return rest.starts_with("self_attn.") && std::ranges::any_of(kScales, [&](std::string_view scale) {
           return rest.ends_with(scale) && (rest[rest.size() - scale.size() - 1] == '.');
         });
}

bool is_input_scale(std::string_view rest) {
  return rest.ends_with("input_scale") || rest.ends_with("activation_scale");
}

}  // namespace mtpcheck
