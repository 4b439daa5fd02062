#include "harness/loading/sglang/load/indexer.h"

#include <algorithm>

#include "harness/loading/symbolic/python_text.h"

namespace mtpcheck::sglang {
namespace {

constexpr std::string_view kIndexer = ".indexer.";
constexpr std::string_view kAttention = "model.decoder.self_attn";

bool is_scale(std::string_view name) { return name.ends_with(".weight_scale_inv") || name.ends_with(".weight_scale"); }

// data[:rows] and data[-rows:], which clip; all of it where rows is 0 and counts from the end.
TargetView rows_of(const TargetView& data, Shard shard, std::size_t rows) {
  if (shard == Shard::first) return data.first(rows);
  return rows == 0 || rows >= data.size(0) ? data : data.from(data.size(0) - rows);
}

}  // namespace

Indexer::Indexer(const HeadConfig& config, const std::optional<Quantisation>& quantisation, Pool& pool)
    : config_(config), pool_(pool) {
  if (!quantisation) return;
  const Scheme& scheme = quantisation->scheme;
  if (scheme.kind != Scheme::Kind::fp8_block && scheme.kind != Scheme::Kind::mxfp8) return;
  block_rows_ = scheme.block_rows;
  block_cols_ = scheme.block_cols;
}

JoinedView Indexer::rope_first(const std::string& name, const SourceView& weight) const {
  std::size_t heads = 1;
  if (contains(name, ".self_attn.indexer.wq_b.")) {
    heads = config_.index_n_heads;
  } else if (!contains(name, ".self_attn.indexer.wk.") && !contains(name, ".self_attn.indexer.k_norm.")) {
    return weight;
  }
  return JoinedView::last_rows_first(weight, heads, config_.index_head_dim, config_.qk_rope_head_dim);
}

std::optional<Outcome> Indexer::take(const std::string& name, const JoinedView& weight) {
  const std::size_t at = name.rfind(kIndexer);
  if (at == std::string::npos) return std::nullopt;
  if (std::string_view(name).substr(0, at) != kAttention) return Outcome::dropped_silently;
  const bool is_weights_proj = contains(name, ".indexer.weights_proj.");
  if (!is_weights_proj && !contains(name, ".indexer.wk.")) return std::nullopt;
  const auto fused = pool_.find(std::string(kAttention) + ".indexer.wk_weights_proj.weight");
  if (!fused) return std::nullopt;
  const Shard shard = is_weights_proj ? Shard::second : Shard::first;
  if (!is_scale(name) && weight.dtype() != Dtype::f8_e4m3) {
    return pool_.copy(*fused, shard, [&] {
      return weight.copy_into(rows_of(TargetView(pool_.parameter(*fused), *fused), shard, weight.size(0)),
                              pool_.tensor());
    });
  }
  Pair& pair = is_weights_proj ? weights_proj_ : wk_;
  (is_scale(name) ? pair.scale : pair.weight) = {weight, pool_.tensor()};
  if (!pair.weight.tensor || !pair.scale.tensor) return Outcome::buffered;
  return dequantised(*fused, shard, pair);
}

Outcome Indexer::dequantised(std::uint32_t fused, Shard shard, Pair& pair) {
  const Pair both = pair;
  pair = {};
  const Outcome outcome = pool_.copy(fused, shard, [&] {
    const TargetView rows = rows_of(TargetView(pool_.parameter(fused), fused), shard, both.weight.tensor->size(0));
    return copy_dequantised(rows, *both.weight.tensor, *both.scale.tensor, block_rows_, block_cols_);
  });
  pool_.complete(both.weight.index == pool_.tensor() ? both.scale.index : both.weight.index);
  return outcome;
}

}  // namespace mtpcheck::sglang
