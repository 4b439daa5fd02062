#include "reference/head/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <type_traits>

#include "reference/head/stages/indexer_stages.h"
#include "reference/head/stages/latent_attention.h"
#include "reference/head/stages/run_stage.h"
#include "reference/head/stages/stage_inputs.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

class Collector final : public StageSink {
 public:
  bool wants(Stage /*stage*/) const override { return true; }
  void record(const StageKey& key, const TensorView& value) override {
    collected.push_back({key, {value.dtype, value.shape, {value.bytes.begin(), value.bytes.end()}}});
  }
  std::vector<ReplayedTensor> collected;
};

template <class S>
std::vector<S> values_of(const TensorView& tensor) {
  if constexpr (std::is_same_v<S, float>) {
    return to_f32(tensor);
  } else {
    return to_f64(tensor);
  }
}

template <class S>
LatentCache<S> cache_from(const RecordedPast& past, const LayerDefinition& layer) {
  const std::size_t rank = layer.config.kv_lora_rank;
  const std::size_t rope = layer.config.qk_rope_head_dim;
  const auto latents = values_of<S>(past.kv_c);
  const auto keys = values_of<S>(past.k_pe);
  LatentCache<S> cache;
  cache.rows = latents.size() / rank;
  if (latents.size() != cache.rows * rank || keys.size() != cache.rows * rope) {
    throw input_error(fmt::format("the cached rows of {} and {} do not fit each other: {} and {}", past.kv_c.name,
                                  past.k_pe.name, to_string(past.kv_c.shape), to_string(past.k_pe.shape)));
  }
  for (std::size_t row = 0; row < cache.rows; ++row) {
    cache.latents.insert(cache.latents.end(), latents.data() + row * rank, latents.data() + (row + 1) * rank);
    cache.latents.insert(cache.latents.end(), keys.data() + row * rope, keys.data() + (row + 1) * rope);
  }
  if (!past.indexer_k.shape.empty()) cache.index_keys = values_of<S>(past.indexer_k);
  cache.index_rows = cache.index_keys.size() / std::max<std::size_t>(layer.config.index_head_dim, 1);
  return cache;
}

/// The first choice of inputs of which everything was recorded, set in the frame.
template <class S>
std::optional<std::vector<Stage>> restore_inputs(Frame<S>& frame, Stage stage, std::size_t step,
                                                 const RecordedStages& recorded) {
  for (const auto& choice : stage_inputs(stage, frame.layer.config, frame.layer.conventions)) {
    const bool complete =
        std::ranges::all_of(choice, [&](Stage input) { return restore(frame, input, step, recorded); });
    if (complete) return choice;
    frame.indexer_scores.clear();
    frame.attn_probs.clear();
  }
  return std::nullopt;
}

template <class S>
void extend_caches(Frame<S>& frame, const std::vector<Stage>& inputs) {
  const auto has = [&](Stage stage) { return std::ranges::find(inputs, stage) != inputs.end(); };
  if (has(Stage::kv_c)) {
    if (!has(Stage::k_pe)) {  // attn_out from probabilities reads the latents alone
      frame.at(Stage::k_pe) = Rows<S>::Zero(static_cast<Eigen::Index>(frame.tokens()),
                                            static_cast<Eigen::Index>(frame.layer.config.qk_rope_head_dim));
    }
    append_latents(frame);
  }
  if (has(Stage::indexer_weights) && frame.layer.conventions.indexer_fp8) {
    compute_indexer_query(frame);
    compute_indexer_key(frame);
    append_index_keys(frame);
  } else if (has(Stage::indexer_k)) {
    append_index_keys(frame);
  }
}

template <class S>
void run_replayed(Frame<S>& frame, Stage stage, const std::vector<Stage>& inputs) {
  switch (stage) {
    case Stage::k_pe:
      frame.at(stage) = compute(stage, frame);
      return;
    case Stage::indexer_k:
      return compute_indexer_key(frame);
    case Stage::indexer_scores:
      return compute_index_scores(frame);
    case Stage::attn_probs:
      compute_attention(frame, true);
      return;
    case Stage::attn_out:
      frame.at(stage) = inputs.front() == Stage::attn_probs ? compute_attention_from_probabilities(frame)
                                                            : compute_attention(frame, false);
      return;
    default:
      run_stage(frame, stage, {});
  }
}

}  // namespace

template <class S>
std::vector<ReplayedTensor> replay_stage(const LayerDefinition& layer, Precision precision, Stage stage,
                                         const HeadInput& input, const RecordedStages& recorded,
                                         const ReplayOptions& options) {
  if (layer.conventions.indexer_fp8 && !options.past.empty()) {
    throw input_error("cached index keys in FP8 are recorded without their scales: replay them from the first row on");
  }
  if (!options.past.empty() && options.past.size() != input.sequences()) {
    throw input_error(
        fmt::format("{} sequences have cached rows, but the batch has {}", options.past.size(), input.sequences()));
  }
  std::vector<LatentCache<S>> caches(input.sequences());
  std::vector<SequenceRows<S>> sequences;
  for (std::size_t s = 0; s < caches.size(); ++s) {
    if (!options.past.empty()) caches[s] = cache_from<S>(options.past[s], layer);
    const auto first = static_cast<std::size_t>(input.cu_seqlens[s]);
    sequences.push_back({first, static_cast<std::size_t>(input.cu_seqlens[s + 1]) - first, caches[s].rows, &caches[s]});
  }
  Frame<S> frame{layer, input, std::move(sequences), {}, {}, {}, {}, {}, {}, {}, {}};
  const auto inputs = restore_inputs(frame, stage, options.step, recorded);
  if (!inputs) return {};
  extend_caches(frame, *inputs);
  run_replayed(frame, stage, *inputs);
  Collector sink;
  record(frame, stage, precision, options.step, sink);
  return std::move(sink.collected);
}

template std::vector<ReplayedTensor> replay_stage<float>(const LayerDefinition&, Precision, Stage, const HeadInput&,
                                                         const RecordedStages&, const ReplayOptions&);
template std::vector<ReplayedTensor> replay_stage<double>(const LayerDefinition&, Precision, Stage, const HeadInput&,
                                                          const RecordedStages&, const ReplayOptions&);

}  // namespace mtpcheck
