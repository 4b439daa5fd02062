#include "reference/model/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace mtpcheck {
namespace {

constexpr std::array<StageInfo, kStages> kInfo = [] {
  using enum Stage;
  using enum StageKind;
  return std::array<StageInfo, kStages>{{
      {embed_masked, "embed_masked", "T,H", values, false, "embedding of the shifted token; zero at position 0"},
      {enorm, "enorm", "T,H", values, false, "RMSNorm of the embedding"},
      {hnorm, "hnorm", "T,H", values, false, "RMSNorm of the target's hidden state"},
      {eh_proj, "eh_proj", "T,H", values, false, "W_eh [enorm | hnorm]"},
      {input_layernorm, "input_layernorm", "T,H", values, false, "RMSNorm of eh_proj"},
      {q_a, "q_a", "T,Lq", values, false, "query down-projection"},
      {q_c, "q_c", "T,Lq", values, false, "RMSNorm of the query latent"},
      {q, "q", "T,N,n+r", values, false, "query up-projection to heads, before RoPE"},
      {q_rope, "q_rope", "T,N,r", values, false, "rotated part of the query"},
      {kv_a, "kv_a", "T,Lkv+r", values, false, "key-value down-projection"},
      {kv_c, "kv_c", "T,Lkv", values, false, "RMSNorm of the key-value latent"},
      {k_pe, "k_pe", "T,r", values, false, "rotated key shared by the heads"},
      {indexer_q, "indexer_q", "T,h,d", values, false, "indexer query after RoPE"},
      {indexer_k, "indexer_k", "T,d", values, false, "indexer key after LayerNorm and RoPE"},
      {indexer_weights, "indexer_weights", "T,h", values, false, "indexer head weights, both scales included"},
      {indexer_scores, "indexer_scores", "T,S", values, true, "sum over heads of w relu(q k), -inf where not causal"},
      {topk_indices, "topk_indices", "T,k", selected_keys, true, "keys that attention sees"},
      {attn_probs, "attn_probs", "N,T,S", values, true, "softmax over the selected keys and the sink"},
      {attn_out, "attn_out", "T,N*v", values, false, "probabilities times values"},
      {gate, "gate", "T,N*v", values, false, "output gate before its sigmoid"},
      {gated, "gated", "T,N*v", values, false, "attn_out times sigmoid(gate)"},
      {o_proj, "o_proj", "T,H", values, false, "output projection"},
      {residual1, "residual1", "T,H", values, false, "o_proj + eh_proj"},
      {post_attention_layernorm, "post_attention_layernorm", "T,H", values, false, "RMSNorm of residual1"},
      {router_logits, "router_logits", "T,E", values, false, "router, float32"},
      {topk_experts, "topk_experts", "T,K", selected_experts, false, "experts of the token"},
      {topk_weights, "topk_weights", "T,K", values, false, "their weights, normalised and scaled"},
      {experts_out, "experts_out", "T,H", values, false, "weighted sum of the routed experts"},
      {shared_out, "shared_out", "T,H", values, false, "shared expert"},
      {mlp_out, "mlp_out", "T,H", values, false, "experts_out + shared_out"},
      {residual2, "residual2", "T,H", values, false, "mlp_out + residual1"},
      {final_layernorm, "final_layernorm", "T,H", values, false, "the next step's hidden state"},
      {logits, "logits", "T,V", values, false, "shared head, float32"},
  }};
}();

std::optional<std::size_t> number(std::string_view digits) {
  std::size_t value = 0;
  const auto* const end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc{} || at != end || digits.empty()) return std::nullopt;
  return value;
}

}  // namespace

const StageInfo& info(Stage stage) { return kInfo[static_cast<std::size_t>(stage)]; }

std::span<const StageInfo> all_stages() { return kInfo; }

std::string_view name(Stage stage) { return info(stage).name; }

std::optional<Stage> stage_from_name(std::string_view name) {
  const auto found = std::ranges::find(kInfo, name, &StageInfo::name);
  if (found == kInfo.end()) return std::nullopt;
  return found->stage;
}

std::string to_string(const StageKey& key) {
  const std::string step = key.step == 0 ? std::string() : fmt::format("step{}.", key.step);
  const std::string sequence = key.sequence ? fmt::format(".seq{}", *key.sequence) : std::string();
  return fmt::format("{}{}{}", step, name(key.stage), sequence);
}

std::optional<StageKey> stage_key_from_name(std::string_view text) {
  StageKey key;
  if (text.starts_with("step")) {
    const auto dot = text.find('.');
    if (dot == std::string_view::npos) return std::nullopt;
    const auto step = number(text.substr(4, dot - 4));
    if (!step) return std::nullopt;
    key.step = *step;
    text.remove_prefix(dot + 1);
  }
  if (const auto dot = text.find('.'); dot != std::string_view::npos) {
    const auto suffix = text.substr(dot + 1);
    if (!suffix.starts_with("seq")) return std::nullopt;
    key.sequence = number(suffix.substr(3));
    if (!key.sequence) return std::nullopt;
    text = text.substr(0, dot);
  }
  const auto stage = stage_from_name(text);
  if (!stage) return std::nullopt;
  key.stage = *stage;
  return key;
}

}  // namespace mtpcheck
