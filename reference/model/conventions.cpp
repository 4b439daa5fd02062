#include "reference/model/conventions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

constexpr std::string_view kModelEps = "rms_norm_eps";

std::optional<bool> flag_of(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return std::nullopt;
}

std::optional<RopePairing> pairing_of(std::string_view text) {
  if (text == "interleaved") return RopePairing::interleaved;
  if (text == "half-split") return RopePairing::half_split;
  return std::nullopt;
}

std::optional<double> epsilon_of(std::string_view text) {
  double value = 0;
  const auto* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || at != end || !std::isfinite(value) || value < 0) return std::nullopt;
  return value;
}

std::string_view flag_text(bool flag) { return flag ? "true" : "false"; }

std::string epsilon_text(const std::optional<double>& eps) {
  return eps ? fmt::format("{}", *eps) : std::string(kModelEps);
}

// One convention: its key, what it accepts, and the two ways between text and value. `set` is false for a bad text.
struct Convention {
  std::string_view key;
  std::string_view accepts;
  bool (*set)(Conventions&, std::string_view);
  std::string (*get)(const Conventions&);
};

template <RopePairing Conventions::*Member>
constexpr Convention pairing(std::string_view key) {
  return {key, "interleaved or half-split",
          [](Conventions& values, std::string_view text) {
            const auto parsed = pairing_of(text);
            if (parsed) values.*Member = *parsed;
            return parsed.has_value();
          },
          [](const Conventions& values) { return std::string(to_string(values.*Member)); }};
}

template <std::optional<double> Conventions::*Member>
constexpr Convention epsilon(std::string_view key) {
  return {key, "a number that is not negative, or rms_norm_eps",
          [](Conventions& values, std::string_view text) {
            const auto parsed = epsilon_of(text);
            if (parsed || text == kModelEps) values.*Member = parsed;
            return parsed.has_value() || text == kModelEps;
          },
          [](const Conventions& values) { return epsilon_text(values.*Member); }};
}

template <bool Conventions::*Member>
constexpr Convention flag(std::string_view key) {
  return {key, "true or false",
          [](Conventions& values, std::string_view text) {
            const auto parsed = flag_of(text);
            if (parsed) values.*Member = *parsed;
            return parsed.has_value();
          },
          [](const Conventions& values) { return std::string(flag_text(values.*Member)); }};
}

bool set_hidden_state(Conventions& values, std::string_view text) {
  if (text != "post-norm" && text != "pre-norm") return false;
  values.hidden_state = text == "post-norm" ? HiddenState::post_norm : HiddenState::pre_norm;
  return true;
}

constexpr std::array kConventions{
    pairing<&Conventions::rope>("rope"),
    pairing<&Conventions::indexer_rope>("indexer_rope"),
    epsilon<&Conventions::latent_norm_eps>("latent_norm_eps"),
    epsilon<&Conventions::k_norm_eps>("k_norm_eps"),
    flag<&Conventions::indexer_fp8>("indexer_fp8"),
    flag<&Conventions::group_routing>("group_routing"),
    flag<&Conventions::position_zero_mask>("position_zero_mask"),
    Convention{"hidden_state", "post-norm or pre-norm", set_hidden_state,
               [](const Conventions& values) { return std::string(to_string(values.hidden_state)); }},
    flag<&Conventions::yarn_softmax_scale>("yarn_softmax_scale"),
};

// Empty when `text` is a value of `key`; otherwise what is wrong with it.
std::string fault_of(std::string_view key, std::string_view text) {
  const auto* const found = std::ranges::find(kConventions, key, &Convention::key);
  if (found == kConventions.end()) {
    return fmt::format("there is no convention \"{}\"; known are {}", key, fmt::join(convention_keys(), ", "));
  }
  Conventions values;
  if (found->set(values, text)) return {};
  return fmt::format("{} is \"{}\"; {} was expected", key, text, found->accepts);
}

class Levels {
 public:
  Levels() {
    for (const Convention& one : kConventions) resolved_.origins.push_back({std::string(one.key), {}, {}, {}});
  }

  void apply(const ConventionSettings& settings, ConventionLevel level, const std::string& source) {
    for (const auto& [key, text] : settings) {
      if (const std::string fault = fault_of(key, text); !fault.empty())
        throw usage_error(fmt::format("{}: {}", source, fault));
    }
    for (std::size_t i = 0; i < kConventions.size(); ++i) {
      const std::string key(kConventions[i].key);
      auto found = settings.find(key);
      if (found == settings.end() && key == "indexer_rope") found = settings.find("rope");
      if (found == settings.end()) continue;
      kConventions[i].set(resolved_.values, found->second);
      resolved_.origins[i].level = level;
      resolved_.origins[i].source = source;
    }
  }

  ResolvedConventions finish() && {
    for (std::size_t i = 0; i < kConventions.size(); ++i) {
      resolved_.origins[i].value = kConventions[i].get(resolved_.values);
    }
    return std::move(resolved_);
  }

 private:
  ResolvedConventions resolved_;
};

}  // namespace

std::string_view to_string(RopePairing pairing) {
  return pairing == RopePairing::interleaved ? "interleaved" : "half-split";
}

std::string_view to_string(HiddenState state) { return state == HiddenState::post_norm ? "post-norm" : "pre-norm"; }

std::string_view to_string(ConventionLevel level) {
  switch (level) {
    case ConventionLevel::builtin:
      return "built-in";
    case ConventionLevel::mtpcheck_json:
      return "mtpcheck.json";
    case ConventionLevel::preset:
      return "preset";
    case ConventionLevel::option:
      break;
  }
  return "option";
}

const std::vector<std::string>& convention_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> all;
    all.reserve(kConventions.size());
    for (const Convention& one : kConventions) all.emplace_back(one.key);
    return all;
  }();
  return keys;
}

ConventionSettings preset_settings(std::string_view preset) {
  ConventionSettings settings{
      {"rope", "interleaved"},        {"indexer_rope", "interleaved"}, {"latent_norm_eps", "rms_norm_eps"},
      {"k_norm_eps", "1e-6"},         {"indexer_fp8", "false"},        {"group_routing", "false"},
      {"position_zero_mask", "true"}, {"hidden_state", "post-norm"},   {"yarn_softmax_scale", "false"}};
  if (preset == "vllm") return settings;
  if (preset == "transformers") {
    settings["rope"] = settings["indexer_rope"] = "half-split";
    settings["latent_norm_eps"] = "1e-6";
    settings["k_norm_eps"] = "rms_norm_eps";
    settings["group_routing"] = "true";
    settings["yarn_softmax_scale"] = "true";
    return settings;
  }
  if (preset == "sglang") {
    settings["group_routing"] = "true";
    settings["position_zero_mask"] = "false";
    settings["yarn_softmax_scale"] = "true";
    return settings;
  }
  throw usage_error(fmt::format("there is no preset \"{}\"; known are vllm, transformers, sglang", preset));
}

ConventionSettings parse_mtpcheck_json(const nlohmann::json& json, const std::string& file) {
  if (!json.is_object()) throw input_error(fmt::format("{}: not a JSON object", file));
  ConventionSettings settings;
  for (const auto& [key, value] : json.items()) {
    std::string text = value.is_string() ? value.get<std::string>()
                                         : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (const std::string fault = fault_of(key, text); !fault.empty()) {
      throw input_error(fmt::format("{}: {}", file, fault));
    }
    settings.emplace(key, std::move(text));
  }
  return settings;
}

ResolvedConventions resolve_conventions(const ConventionSettings& mtpcheck_json,
                                        const std::optional<std::string>& preset, const ConventionSettings& options) {
  Levels levels;
  levels.apply(preset_settings("vllm"), ConventionLevel::builtin, "built-in default (preset vllm)");
  levels.apply(mtpcheck_json, ConventionLevel::mtpcheck_json, "mtpcheck.json");
  if (preset) levels.apply(preset_settings(*preset), ConventionLevel::preset, "preset " + *preset);
  levels.apply(options, ConventionLevel::option, "option");
  return std::move(levels).finish();
}

}  // namespace mtpcheck
