#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>
#include <vector>

#include "harness/parity/dump/mapping.h"

namespace mtpcheck {
namespace {

struct Alias {
  std::string_view module;  ///< last part of a module's name in vLLM, SGLang or transformers
  std::string_view stage;
};

/// Longer names first: "q_a_layernorm" is not "q_a".
constexpr std::array kAliases = {
    Alias{"fused_qkv_a_proj", "q_a+kv_a"},
    Alias{"kv_a_proj_with_mqa", "kv_a"},
    Alias{"post_attention_layernorm", "post_attention_layernorm"},
    Alias{"input_layernorm", "input_layernorm"},
    Alias{"final_layernorm", "final_layernorm"},
    Alias{"shared_experts", "shared_out"},
    Alias{"shared_expert", "shared_out"},
    Alias{"q_a_layernorm", "q_c"},
    Alias{"kv_a_layernorm", "kv_c"},
    Alias{"weights_proj", "indexer_weights"},
    Alias{"linear_gate", "gate"},
    Alias{"embed_tokens", "embed_masked"},
    Alias{"q_a_proj", "q_a"},
    Alias{"q_b_proj", "q"},
    Alias{"mlp.gate", "router_logits"},
    Alias{"router", "router_logits"},
    Alias{"experts", "experts_out"},
    Alias{"lm_head", "logits"},
    Alias{"o_proj", "o_proj"},
    Alias{"eh_proj", "eh_proj"},
    Alias{"mlp", "mlp_out"},
    Alias{"k_norm", "indexer_k"},
    Alias{"wq_b", "indexer_q"},
};

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string_view without_suffix(std::string_view name) {
  for (const std::string_view suffix : {"_output", ".output", "_out", ".out", ".0"}) {
    if (name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
  }
  return name;
}

}  // namespace

std::string suggestion(const std::string& name, const Shape& shape, const std::map<std::string, Shape>& expected) {
  const std::string_view stem = without_suffix(name);
  for (const auto& [module, stage] : kAliases) {
    const std::string first(stage.substr(0, stage.find('+')));
    const bool last_part = stem == module || (stem.ends_with(module) && stem[stem.size() - module.size() - 1] == '.');
    if (last_part && expected.contains(first)) return std::string(stage);
  }
  const std::size_t dot = stem.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? stem : stem.substr(dot + 1);
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(last.size() / 3, 1) + 1;
  for (const auto& [stage, stage_shape] : expected) {
    const std::size_t distance = edit_distance(last, stage);
    if (distance < best_distance) {
      best_distance = distance;
      best = stage;
    }
  }
  if (!best.empty()) return best;
  std::vector<std::string> same_shape;
  for (const auto& [stage, stage_shape] : expected) {
    if (stage_shape == shape) same_shape.push_back(stage);
  }
  return same_shape.size() == 1 ? same_shape.front() : std::string();
}

}  // namespace mtpcheck
