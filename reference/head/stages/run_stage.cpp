#include "reference/head/stages/run_stage.h"

#include <fmt/format.h>

#include <algorithm>

#include "reference/head/stages/indexer_stages.h"
#include "reference/head/stages/latent_attention.h"
#include "reference/head/stages/mlp_stages.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

/// A forced set, ascending, without its padding.
std::vector<std::int32_t> sorted_set(const std::vector<std::int32_t>& forced, std::size_t limit, std::size_t row,
                                     const char* what) {
  std::vector<std::int32_t> out;
  for (const auto index : forced) {
    if (index < 0) continue;
    if (static_cast<std::size_t>(index) >= limit) {
      throw input_error(fmt::format("row {} is told to use {} {}, but has only {}", row, what, index, limit));
    }
    out.push_back(index);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

void check_rows(std::size_t given, std::size_t rows, const char* what) {
  if (given == rows) return;
  throw input_error(fmt::format("{} are forced for {} rows, but the batch has {}", what, given, rows));
}

/// Keys given from outside: only what the row can see counts, as in an engine that masks what is not yet there.
template <class S>
KeyChoice given_keys(const Frame<S>& frame, const KeyChoice& given) {
  KeyChoice out(frame.tokens());
  for (const auto& sequence : frame.sequences) {
    for (std::size_t row = sequence.first; row < sequence.first + sequence.count; ++row) {
      out[row] = sorted_set(given[row], sequence.keys(), row, "key");
      const auto own = static_cast<std::int32_t>(sequence.cached + row - sequence.first);
      std::erase_if(out[row], [own](std::int32_t key) { return key > own; });
    }
  }
  return out;
}

template <class S>
KeyChoice keys_of(Frame<S>& frame, const StageDemands& demands) {
  if (demands.forced != nullptr && !demands.forced->topk_indices.empty()) {
    check_rows(demands.forced->topk_indices.size(), frame.tokens(), "keys");
    return given_keys(frame, demands.forced->topk_indices);
  }
  if (demands.reused != nullptr) return given_keys(frame, *demands.reused);
  return compute_topk_indices(frame);
}

template <class S>
ExpertChoice experts_of(const Frame<S>& frame, const StageDemands& demands) {
  if (demands.forced == nullptr || demands.forced->topk_experts.empty()) return compute_topk_experts(frame);
  check_rows(demands.forced->topk_experts.size(), frame.tokens(), "experts");
  const auto& c = frame.layer.config;
  ExpertChoice out;
  for (std::size_t row = 0; row < frame.tokens(); ++row) {
    out.push_back(sorted_set(demands.forced->topk_experts[row], c.n_routed_experts, row, "expert"));
    if (out.back().size() != c.num_experts_per_tok) {
      throw input_error(fmt::format("row {} is told to use {} experts, but the head uses {} a token", row,
                                    out.back().size(), c.num_experts_per_tok));
    }
  }
  return out;
}

}  // namespace

template <class S>
void append_latents(Frame<S>& frame) {
  const auto& kv_c = frame.at(Stage::kv_c);
  const auto& k_pe = frame.at(Stage::k_pe);
  for (const auto& sequence : frame.sequences) {
    auto& cache = *sequence.cache;
    for (std::size_t row = sequence.first; row < sequence.first + sequence.count; ++row) {
      const auto t = static_cast<Eigen::Index>(row);
      cache.latents.insert(cache.latents.end(), kv_c.data() + t * kv_c.cols(), kv_c.data() + (t + 1) * kv_c.cols());
      cache.latents.insert(cache.latents.end(), k_pe.data() + t * k_pe.cols(), k_pe.data() + (t + 1) * k_pe.cols());
    }
    cache.rows += sequence.count;
  }
}

template <class S>
void append_index_keys(Frame<S>& frame) {
  const auto& k = frame.at(Stage::indexer_k);
  for (const auto& sequence : frame.sequences) {
    auto& cache = *sequence.cache;
    for (std::size_t row = sequence.first; row < sequence.first + sequence.count; ++row) {
      const auto t = static_cast<Eigen::Index>(row);
      cache.index_keys.insert(cache.index_keys.end(), k.data() + t * k.cols(), k.data() + (t + 1) * k.cols());
      if (frame.layer.conventions.indexer_fp8) cache.index_scales.push_back(frame.indexer_k_scales(t, 0));
    }
    cache.index_rows += sequence.count;
  }
}

template <class S>
void run_stage(Frame<S>& frame, Stage stage, const StageDemands& demands) {
  switch (stage) {
    case Stage::k_pe:
      frame.at(stage) = compute(stage, frame);
      return append_latents(frame);
    case Stage::indexer_q:
      return compute_indexer_query(frame);
    case Stage::indexer_k:
      compute_indexer_key(frame);
      return append_index_keys(frame);
    case Stage::indexer_scores:
      if (demands.keep_index_scores) compute_index_scores(frame);
      return;
    case Stage::topk_indices:
      frame.topk_indices = keys_of(frame, demands);
      return;
    case Stage::attn_probs:
      return;  // with attn_out
    case Stage::attn_out:
      frame.at(stage) = compute_attention(frame, demands.keep_probabilities);
      return;
    case Stage::topk_experts:
      frame.topk_experts = experts_of(frame, demands);
      return;
    case Stage::residual1:
    case Stage::residual2: {
      auto sum = compute(stage, frame);
      if (frame.layer.rounding.norm_reads_wide_residual) frame.wide_residual = sum;
      round_all(frame.layer.rounding.format_at(RoundingPoint::residual), sum);
      frame.at(stage) = std::move(sum);
      return;
    }
    default:
      frame.at(stage) = compute(stage, frame);
  }
}

template void append_latents(Frame<float>&);
template void append_latents(Frame<double>&);
template void append_index_keys(Frame<float>&);
template void append_index_keys(Frame<double>&);
template void run_stage(Frame<float>&, Stage, const StageDemands&);
template void run_stage(Frame<double>&, Stage, const StageDemands&);

}  // namespace mtpcheck
