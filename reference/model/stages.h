#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace mtpcheck {

/// The named stages of the head, in the order in which they are computed. One vocabulary for every head, every trace
/// and every report.
enum class Stage : std::uint8_t {
  embed_masked,
  enorm,
  hnorm,
  eh_proj,
  input_layernorm,
  q_a,
  q_c,
  q,
  q_rope,
  kv_a,
  kv_c,
  k_pe,
  indexer_q,
  indexer_k,
  indexer_weights,
  indexer_scores,
  topk_indices,
  attn_probs,
  attn_out,
  gate,
  gated,
  o_proj,
  residual1,
  post_attention_layernorm,
  router_logits,
  topk_experts,
  topk_weights,
  experts_out,
  shared_out,
  mlp_out,
  residual2,
  final_layernorm,
  logits,
};

inline constexpr std::size_t kStages = 33;

/// What a stage's elements are, and so how they are compared.
enum class StageKind : std::uint8_t {
  values,           ///< real numbers
  selected_keys,    ///< i32, a set of key indices a row, descending, −1 as padding
  selected_experts  ///< i32, a set of expert ids a row, ascending
};

struct StageInfo {
  Stage stage;
  std::string_view name;
  /// Extents in symbols: T tokens, S keys of the row's sequence, H hidden, N heads, n nope, r rope, v value, Lq, Lkv
  /// ranks, h index heads, d index dim, k top-k, E experts, K experts per token, V vocabulary; "N*v" is one extent.
  std::string_view shape;
  StageKind kind;
  bool per_sequence;  ///< one tensor a sequence where several are packed: name.seq0, name.seq1, …
  std::string_view what;
};

const StageInfo& info(Stage stage);
std::span<const StageInfo> all_stages();
std::string_view name(Stage stage);
std::optional<Stage> stage_from_name(std::string_view name);

/// One recorded tensor: a stage of a draft step, of one sequence where the stage is per sequence.
struct StageKey {
  Stage stage = Stage::embed_masked;
  std::size_t step = 0;
  std::optional<std::size_t> sequence;  ///< only when several sequences are packed

  auto operator<=>(const StageKey&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 sees a 0 here
};

/// "q_rope", "step1.indexer_scores.seq0"
std::string to_string(const StageKey& key);
/// The inverse; nullopt for a name that is not of this form.
std::optional<StageKey> stage_key_from_name(std::string_view name);

}  // namespace mtpcheck
