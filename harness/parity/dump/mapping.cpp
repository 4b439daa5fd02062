#include "harness/parity/dump/mapping.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

constexpr std::array<std::string_view, 5> kInputs = {"input_ids", "positions", "hidden_states", "cu_seqlens",
                                                     "inputs_embeds"};

bool is_input(std::string_view name) {
  if (name.starts_with("step")) {
    if (const auto dot = name.find('.'); dot != std::string_view::npos) name.remove_prefix(dot + 1);
  }
  return std::ranges::find(kInputs, name) != kInputs.end();
}

/// "q_a+kv_a" → both keys; nullopt when a part is no stage.
std::optional<std::vector<StageKey>> keys_from(std::string_view text) {
  std::vector<StageKey> keys;
  while (true) {
    const std::size_t plus = text.find('+');
    const auto key = stage_key_from_name(text.substr(0, plus));
    if (!key) return std::nullopt;
    keys.push_back(*key);
    if (plus == std::string_view::npos) break;
    text.remove_prefix(plus + 1);
  }
  for (auto& key : keys) key.step = keys.front().step;
  return keys;
}

std::string stage_names() {
  std::string names;
  for (const auto& stage : all_stages()) {
    if (!names.empty()) names += ", ";
    names += stage.name;
  }
  return names;
}

Mapping::Match match_from(const nlohmann::json& value, const std::string& name, const std::string& file) {
  if (value.is_null()) return {Mapping::Kind::ignored, {}};
  const bool object = value.is_object() && value.contains("stage") && value["stage"].is_string();
  if (!object && !value.is_string()) {
    throw input_error(file + ": '" + name + R"(': expected a stage's name, {"stage": …, "order": […]} or null)");
  }
  const std::string text = object ? value["stage"].get<std::string>() : value.get<std::string>();
  const auto keys = keys_from(text);
  if (!keys) throw input_error(file + ": '" + name + "': '" + text + "' is no stage; expected one of " + stage_names());
  MappedTensor tensor{*keys, {}};
  if (object && value.contains("order")) {
    const auto& order = value["order"];
    const bool numbers = order.is_array() && std::ranges::all_of(order, [](const auto& entry) {
                           return entry.is_number_integer() && entry.template get<std::int64_t>() >= 0;
                         });
    if (!numbers) throw input_error(file + ": '" + name + "': 'order' is not a list of dimensions");
    tensor.order = order.get<std::vector<std::size_t>>();
    auto sorted = tensor.order;
    std::ranges::sort(sorted);
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      if (sorted[i] != i) throw input_error(file + ": '" + name + "': 'order' is no permutation");
    }
  }
  return {Mapping::Kind::mapped, std::move(tensor)};
}

}  // namespace

Mapping::Mapping(const nlohmann::json& json, const std::string& file) {
  if (!json.is_object()) throw input_error(file + ": expected an object of names and stages");
  for (const auto& [name, value] : json.items()) {
    const Match match = match_from(value, name, file);
    if (name.ends_with('*')) {
      prefixes_.emplace_back(name.substr(0, name.size() - 1), match);
    } else {
      exact_.emplace(name, match);
    }
  }
}

Mapping::Match Mapping::match(const std::string& name) const {
  if (const auto found = exact_.find(name); found != exact_.end()) return found->second;
  for (const auto& [prefix, match] : prefixes_) {
    if (name.starts_with(prefix)) return match;
  }
  if (const auto keys = keys_from(name)) return {Kind::mapped, {*keys, {}}};
  return {is_input(name) ? Kind::ignored : Kind::unknown, {}};
}

}  // namespace mtpcheck
