#include "harness/loading/rules.h"

namespace mtpcheck {

RowTurn row_turn_sglang(std::string_view weight, const HeadConfig& config) {
  constexpr std::string_view kIndexer = "self_attn.indexer.";
  if (!weight.starts_with(kIndexer)) return {};
  weight.remove_prefix(kIndexer.size());
  const bool turned = weight == "wq_b" || weight == "wk" || weight == "k_norm" || weight == "k_norm.bias";
  if (!turned || config.index_head_dim < config.qk_rope_head_dim) return {};
  return {config.index_head_dim, config.index_head_dim - config.qk_rope_head_dim};
}

}  // namespace mtpcheck
