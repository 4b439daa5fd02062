#include "reference/head/layered_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "reference/head/fitting.h"
#include "reference/head/replay.h"
#include "reference/head/stages/run_stage.h"
#include "reference/head/stages/stage_inputs.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

/// Per stage, the last stage that reads it.
std::array<Stage, kStages> last_readers(const HeadConfig& config, const Conventions& conventions) {
  std::array<Stage, kStages> last{};
  for (const Stage reader : stages_of(config)) {
    for (const auto& choice : stage_inputs(reader, config, conventions)) {
      for (const Stage input : choice) last[static_cast<std::size_t>(input)] = reader;
    }
  }
  // Quantised ones are no input of a replay (their scales are not recorded), but scored all the same.
  for (const Stage scored : {Stage::indexer_q, Stage::indexer_k}) {
    last[static_cast<std::size_t>(scored)] = Stage::topk_indices;
  }
  return last;
}

bool is_the_indexers(Stage stage) {
  return stage == Stage::indexer_q || stage == Stage::indexer_k || stage == Stage::indexer_weights ||
         stage == Stage::indexer_scores;
}

}  // namespace

template <class S>
LayeredHead<S>::LayeredHead(HeadConfig config, HeadWeights weights, Conventions conventions, ReferenceOptions options)
    : config_(std::move(config)),
      weights_(std::move(weights)),
      conventions_(conventions),
      options_(std::move(options)),
      rounding_(options_.rounding ? *options_.rounding : rounding_plan(options_.precision, options_.rounding_preset)) {
  check_weights(config_, weights_);
  if (options_.pool == nullptr) options_.pool = &shared_pool();
  caches_.resize(weights_.layers.size());
  if (options_.own_topk_buffer) buffer_ = std::make_shared<TopkIndicesBuffer>(0);
}

template <class S>
void LayeredHead<S>::reset() {
  for (auto& layer : caches_) layer.clear();
  begun_ = false;
}

template <class S>
LayerDefinition LayeredHead<S>::definition(std::size_t spec_step_idx, const Conventions& conventions,
                                           const Deviations& deviations) const {
  return {config_,
          weights_.layers[spec_step_idx % weights_.layers.size()],
          weights_.embed_tokens,
          conventions,
          deviations,
          rounding_,
          options_.activations,
          options_.pool,
          options_.sums_in_order};
}

template <class S>
std::vector<SequenceRows<S>> LayeredHead<S>::begin(const HeadInput& input, std::size_t layer) {
  check_input(config_, input);
  if (!begun_) {
    for (auto& caches : caches_) caches.resize(input.sequences());
    begun_ = true;
  }
  auto& caches = caches_[layer];
  if (input.sequences() > caches.size()) {
    throw input_error(fmt::format("the batch has {} sequences, but the caches were begun with {}: call reset() first",
                                  input.sequences(), caches.size()));
  }
  std::vector<SequenceRows<S>> sequences;
  for (std::size_t s = 0; s < input.sequences(); ++s) {
    const auto first = static_cast<std::size_t>(input.cu_seqlens[s]);
    const auto count = static_cast<std::size_t>(input.cu_seqlens[s + 1]) - first;
    sequences.push_back({first, count, caches[s].rows, &caches[s]});
    if (config_.sparse_attention && !skip_topk_ && count > 0 && caches[s].index_rows != caches[s].rows) {
      throw input_error(fmt::format(
          "sequence {} has {} rows, but index keys of {} only: the others were run with set_skip_topk(true). Roll the "
          "sequence back to {} rows, or go on with set_skip_topk(true)",
          s, caches[s].rows, caches[s].index_rows, caches[s].index_rows));
    }
  }
  return sequences;
}

template <class S>
void LayeredHead<S>::prepare_buffer(std::size_t tokens) {
  if (!config_.sparse_attention) return;
  if (!buffer_) {
    throw input_error(
        "a sparse MTP head reads its keys from the target's buffer of top-k indices: call set_topk_indices_buffer() "
        "before the first forward");
  }
  if (options_.own_topk_buffer && !skip_topk_ && buffer_->rows.size() < tokens) buffer_->rows.resize(tokens);
  if (buffer_->rows.size() < tokens) {
    throw input_error(
        fmt::format("the batch has {} rows, but the buffer of top-k indices only {}", tokens, buffer_->rows.size()));
  }
}

template <class S>
void LayeredHead<S>::run(Frame<S>& frame, const ForwardOptions& options, StageSink& sink) {
  StageDemands demands;
  demands.forced = options.forced;
  demands.keep_index_scores = sink.wants(Stage::indexer_scores);
  demands.keep_probabilities = sink.wants(Stage::attn_probs);
  KeyChoice reused;
  if (skip_topk_ && config_.sparse_attention) {
    reused.assign(buffer_->rows.begin(), buffer_->rows.begin() + static_cast<std::ptrdiff_t>(frame.tokens()));
    demands.reused = &reused;
  }
  const auto last_reader = last_readers(config_, frame.layer.conventions);
  for (const Stage stage : stages_of(config_)) {
    if (skip_topk_ && is_the_indexers(stage)) continue;
    run_stage(frame, stage, demands);
    if (stage == Stage::attn_out) record(frame, Stage::attn_probs, options_.precision, options.step, sink);
    record(frame, stage, options_.precision, options.step, sink);
    if (stage == Stage::topk_indices && !skip_topk_) {
      std::copy(frame.topk_indices.begin(), frame.topk_indices.end(), buffer_->rows.begin());
    }
    for (std::size_t i = 0; i < kStages; ++i) {
      if (frame.values[i].size() > 0 && last_reader[i] <= stage && i < static_cast<std::size_t>(stage)) {
        frame.values[i].resize(0, 0);
      }
    }
  }
}

template <class S>
void LayeredHead<S>::forward(const HeadInput& input, const ForwardOptions& options, StageSink& sink) {
  const std::size_t layer = options.spec_step_idx % weights_.layers.size();
  const LayerDefinition defined = definition(layer, conventions_, options_.deviations);
  prepare_buffer(input.tokens());
  Frame<S> frame{defined, input, begin(input, layer), {}, {}, {}, {}, {}, {}, {}, {}};
  try {
    run(frame, options, sink);
  } catch (...) {
    for (const auto& sequence : frame.sequences) truncate(*sequence.cache, sequence.cached);
    throw;
  }
}

template <class S>
void LayeredHead<S>::truncate(LatentCache<S>& cache, std::size_t length) const {
  cache.truncate(length, config_.kv_lora_rank + config_.qk_rope_head_dim, config_.index_head_dim);
}

template <class S>
std::size_t LayeredHead<S>::cached_rows(std::size_t sequence) const {
  std::size_t rows = 0;
  for (const auto& layer : caches_) {
    if (sequence < layer.size()) rows = std::max(rows, layer[sequence].rows);
  }
  return rows;
}

template <class S>
void LayeredHead<S>::rollback(std::size_t sequence, std::size_t length) {
  if (length > cached_rows(sequence)) {
    throw input_error(fmt::format("sequence {} cannot be rolled back to {} rows: {} are cached", sequence, length,
                                  cached_rows(sequence)));
  }
  for (auto& layer : caches_) {
    if (sequence < layer.size()) truncate(layer[sequence], length);
  }
}

template <class S>
void LayeredHead<S>::set_topk_indices_buffer(std::shared_ptr<TopkIndicesBuffer> buffer) {
  buffer_ = std::move(buffer);
  options_.own_topk_buffer = false;
}

template <class S>
void LayeredHead<S>::compact_topk_indices(std::span<const std::size_t> slot_ids) {
  if (!buffer_) return;
  std::vector<std::vector<std::int32_t>> gathered;
  for (const std::size_t slot : slot_ids) {
    if (slot >= buffer_->rows.size()) {
      throw input_error(
          fmt::format("slot {} is beyond the {} rows of the buffer of top-k indices", slot, buffer_->rows.size()));
    }
    gathered.push_back(buffer_->rows[slot]);
  }
  if (gathered.size() > buffer_->rows.size()) buffer_->rows.resize(gathered.size());
  std::move(gathered.begin(), gathered.end(), buffer_->rows.begin());
}

template <class S>
std::vector<ReplayedTensor> LayeredHead<S>::replay(Stage stage, const HeadInput& input, const RecordedStages& recorded,
                                                   const ReplayOptions& options) const {
  check_input(config_, input);
  const LayerDefinition defined = definition(options.spec_step_idx, options.conventions.value_or(conventions_),
                                             options.deviations.value_or(options_.deviations));
  return replay_stage<S>(defined, options_.precision, stage, input, recorded, options);
}

template class LayeredHead<float>;
template class LayeredHead<double>;

}  // namespace mtpcheck
