#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reference/model/config.h"

namespace mtpcheck {

/// Which entries of a vector RoPE rotates together.
enum class RopePairing : std::uint8_t {
  interleaved,  ///< (2i, 2i+1), "GPT-J style"
  half_split,   ///< (i, i + r/2), "NeoX style", rotate_half
};

enum class HiddenState : std::uint8_t {
  post_norm,  ///< the target's hidden state after its final norm
  pre_norm,
};

/// The choices on which real implementations of one and the same head disagree; see docs/conventions.md.
/// An epsilon of nullopt means the config's rms_norm_eps.
struct Conventions {
  RopePairing rope = RopePairing::interleaved;
  RopePairing indexer_rope = RopePairing::interleaved;
  std::optional<double> latent_norm_eps;    ///< q_a_layernorm, kv_a_layernorm
  std::optional<double> k_norm_eps = 1e-6;  ///< the indexer's LayerNorm on k
  bool indexer_fp8 = false;                 ///< the indexer's query and keys quantised to E4M3
  bool group_routing = false;               ///< n_group and topk_group of the config are obeyed
  bool position_zero_mask = true;           ///< rows at position 0 have a zero embedding
  HiddenState hidden_state = HiddenState::post_norm;
  bool yarn_softmax_scale = false;  ///< scaled rope_parameters with mscale_all_dim also scale attention's softmax

  bool operator==(const Conventions&) const = default;
};

/// Where a convention's value came from, lowest to highest.
enum class ConventionLevel : std::uint8_t { builtin, mtpcheck_json, preset, option };

/// Key (as in mtpcheck.json: "rope", "latent_norm_eps", …) → value as text.
using ConventionSettings = std::map<std::string, std::string>;

struct ResolvedConventions {
  Conventions values;
  /// Per key: the value as text, the level that set it, and that level's name ("preset transformers").
  struct Origin {
    std::string key;
    std::string value;
    ConventionLevel level = ConventionLevel::builtin;
    std::string source;
  };
  std::vector<Origin> origins;
};

/// All keys, in the order of reports.
const std::vector<std::string>& convention_keys();

/// The settings of a named preset: vllm, transformers, sglang. Throws Error{usage} that lists the names for another
/// one.
ConventionSettings preset_settings(std::string_view preset);

/// Settings in a mtpcheck.json. Throws Error{input}, prefixed with `file`, for an unknown key or a bad value.
ConventionSettings parse_mtpcheck_json(const nlohmann::json& json, const std::string& file);

/// Built-in default (preset vllm) ← mtpcheck.json ← preset ← single options. `rope` set at one level also sets
/// `indexer_rope`, unless that is set at the same or a higher level. Values are texts as on the command line
/// ("half-split", "1e-6", "rms_norm_eps", "true", "pre-norm"); a bad one throws Error{usage}.
ResolvedConventions resolve_conventions(const ConventionSettings& mtpcheck_json,
                                        const std::optional<std::string>& preset, const ConventionSettings& options);

std::string_view to_string(RopePairing pairing);
std::string_view to_string(HiddenState state);
std::string_view to_string(ConventionLevel level);

}  // namespace mtpcheck
