#include "cuda/head/cuda_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <numbers>

#include "cuda/head/step_input.h"
#include "reference/head/fitting.h"
#include "reference/math/rope.h"
#include "reference/tensor/error.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

namespace {

DeviceWeights uploaded(const HeadConfig& config, const HeadWeights& weights) {
  require_device();
  check_weights(config, weights);
  const OwnedStream stream;
  DeviceWeights out = upload_weights(stream.get(), shape_of(config), weights);
  synchronize(stream.get());
  return out;
}

void check_bounds(const std::vector<std::int64_t>& cu_seqlens) {
  if (cu_seqlens.empty() || cu_seqlens.front() != 0 || !std::ranges::is_sorted(cu_seqlens)) {
    throw input_error("cu_seqlens must ascend from 0 to the number of rows");
  }
}

}  // namespace

RopeTables::RopeTables(const HeadConfig& config, const Conventions& conventions)
    : config_(config), conventions_(conventions) {}

bool RopeTables::prepare(Stream stream, std::int64_t longest, LayerSettings& settings) {
  const bool depends = config_.rope.type == "dynamic";
  const bool stale = prepared_for_ < 0 || (depends && longest != prepared_for_);
  if (stale) {
    const auto frequencies = rope_frequencies<double>(
        config_.rope, config_.qk_rope_head_dim, config_.max_position_embeddings, static_cast<std::size_t>(longest) + 1);
    std::vector<double> half_turns;
    for (const double frequency : frequencies.inverse) half_turns.push_back(frequency / std::numbers::pi);
    half_turns_ = Buffer<double>(stream, half_turns);
    scale_ = static_cast<float>(frequencies.attention_factor);
    prepared_for_ = longest;
  }
  settings.rope = {.dims = settings.shape.rope,
                   .half_split = conventions_.rope == RopePairing::half_split,
                   .half_turns = half_turns_.data(),
                   .scale = scale_};
  settings.index_rope = settings.rope;
  settings.index_rope.half_split = conventions_.indexer_rope == RopePairing::half_split;
  return stale;
}

CudaHead::CudaHead(HeadConfig config, DeviceWeights weights, Conventions conventions)
    : config_(std::move(config)),
      conventions_(conventions),
      device_(require_device()),
      settings_(layer_settings(config_, conventions_)),
      rope_(config_, conventions_),
      weights_(std::move(weights)) {
  for (std::size_t i = 0; i < weights_.layers.size(); ++i) {
    caches_.emplace_back(settings_.shape, conventions_.indexer_fp8);
  }
}

CudaHead::CudaHead(const HeadConfig& config, const HeadWeights& weights, Conventions conventions)
    : CudaHead(config, uploaded(config, weights), conventions) {}

std::string CudaHead::name() const { return "cuda bf16 on " + device_; }

void CudaHead::reset() {
  for (auto& cache : caches_) cache.clear();
  sequences_.reset();
}

std::vector<SequenceStep> CudaHead::begin(const std::vector<std::int64_t>& cu_seqlens, std::size_t layer) {
  const std::size_t count = cu_seqlens.size() - 1;
  if (!sequences_) sequences_ = count;
  if (count > *sequences_) {
    throw input_error(fmt::format("the batch has {} sequences, but the caches were begun with {}: call reset() first",
                                  count, *sequences_));
  }
  LayerCache& cache = caches_[layer];
  std::vector<SequenceStep> sequences;
  std::vector<int> lengths(*sequences_, 0);
  for (std::size_t s = 0; s < *sequences_; ++s) {
    const int cached = static_cast<int>(s) < cache.sequences() ? cache.rows(static_cast<int>(s)) : 0;
    lengths[s] = cached;
    if (s >= count) continue;
    const int first = static_cast<int>(cu_seqlens[s]);
    sequences.push_back({first, static_cast<int>(cu_seqlens[s + 1]) - first, cached});
    lengths[s] = sequences.back().keys();
  }
  cache.reserve(stream_.get(), lengths);
  return sequences;
}

void CudaHead::prepare_rope(std::int64_t longest) {
  // A recorded graph knows the tables by their address.
  if (rope_.prepare(stream_.get(), longest, settings_)) graph_.reset();
}

void CudaHead::forward(const HeadInput& input, const ForwardOptions& options, StageSink& sink) {
  check_input(config_, input);
  const std::int64_t longest = input.tokens() > 0 ? *std::ranges::max_element(input.positions) : 0;
  forward_rows(input, longest, options, sink);
}

void CudaHead::forward(const DeviceInput& input, const ForwardOptions& options, StageSink& sink) {
  check_bounds(input.cu_seqlens);
  forward_rows(input, input.longest, options, sink);
}

template <class Input>
void CudaHead::forward_rows(const Input& input, std::int64_t longest, const ForwardOptions& options, StageSink& sink) {
  const std::size_t layer = options.spec_step_idx % weights_.layers.size();
  const auto sequences = begin(input.cu_seqlens, layer);
  if (input.tokens() > 0) prepare_rope(longest);
  const StepInput step(stream_.get(), settings_.shape, input, options.forced, sequences, caches_[layer]);
  run(step.rows(), options, sequences, layer, sink);
  // Only now: a forward that fails leaves the caches as they were.
  for (std::size_t s = 0; s < sequences.size(); ++s) caches_[layer].set_rows(static_cast<int>(s), sequences[s].keys());
}

void CudaHead::run(const StepRows& rows, const ForwardOptions& options, const std::vector<SequenceStep>& sequences,
                   std::size_t layer, StageSink& sink) {
  const Stream stream = stream_.get();
  const Activations activations(settings_.shape, settings_.headwise_gate, rows.tokens, rows.max_keys,
                                multiprocessors());
  std::vector<float> scores;
  LayerDemands demands{.embed_masked = sink.wants(Stage::embed_masked),
                       .experts_out = sink.wants(Stage::experts_out),
                       .shared_out = sink.wants(Stage::shared_out),
                       .mlp_out = sink.wants(Stage::mlp_out),
                       .scores = {}};
  if (settings_.shape.sparse() && sink.wants(Stage::indexer_scores)) {
    scores.resize(static_cast<std::size_t>(rows.tokens) * rows.max_keys);
    demands.scores = [&](int first, int count, const float* chunk) {
      const std::size_t width = static_cast<std::size_t>(rows.max_keys);
      download_bytes(stream, scores.data() + first * width, chunk, count * width * sizeof(float));
    };
  }
  run_layer(stream, settings_, weights_.layers[layer], weights_.embedding, caches_[layer], rows, activations, library_,
            demands);
  synchronize(stream);
  record_step(
      {stream, config_, settings_, weights_.layers[layer], caches_[layer], rows, activations, sequences, scores},
      options, sink);
}

void CudaHead::rollback(std::size_t sequence, std::size_t length) {
  std::size_t most = 0;
  for (const auto& cache : caches_) {
    if (sequence < static_cast<std::size_t>(cache.sequences())) {
      most = std::max(most, static_cast<std::size_t>(cache.rows(static_cast<int>(sequence))));
    }
  }
  if (length > most) {
    throw input_error(
        fmt::format("sequence {} cannot be rolled back to {} rows: {} are cached", sequence, length, most));
  }
  for (auto& cache : caches_) {
    if (sequence >= static_cast<std::size_t>(cache.sequences())) continue;
    const int s = static_cast<int>(sequence);
    cache.set_rows(s, std::min(cache.rows(s), static_cast<int>(length)));
  }
}

std::vector<std::vector<std::int64_t>> CudaHead::draft(const HeadInput& last, std::size_t steps) {
  check_input(config_, last);
  const std::size_t sequences = last.sequences();
  if (!sequences_) sequences_ = sequences;
  if (last.tokens() != sequences || sequences != *sequences_ || !last.inputs_embeds.bytes.empty()) {
    throw input_error(
        fmt::format("a draft step takes one row of token ids for each of the {} cached sequences, not {} rows of {}",
                    *sequences_, last.tokens(), sequences));
  }
  if (steps == 0 || sequences == 0) return std::vector<std::vector<std::int64_t>>(sequences);
  const int count = static_cast<int>(sequences);
  const int drafts = static_cast<int>(steps);
  prepare_rope(*std::ranges::max_element(last.positions) + drafts);
  int longest = 0;
  for (const auto& cache : caches_) {
    for (int s = 0; s < cache.sequences(); ++s) longest = std::max(longest, cache.rows(s) + drafts);
  }
  if (!graph_ || !graph_->fits(count, drafts, longest)) {
    // Room for some hundred tokens more, so that the next steps find the graph fitting.
    const DraftContext context{stream_.get(), settings_, weights_.embedding, weights_.layers, caches_, library_};
    graph_ = std::make_unique<DraftGraph>(context, count, drafts, longest + 256);
  }
  const auto tokens = graph_->run(draft_start(last, settings_.shape));
  std::vector<std::vector<std::int64_t>> out;
  for (std::size_t s = 0; s < sequences; ++s) {
    out.emplace_back(tokens.begin() + static_cast<std::ptrdiff_t>(s * steps),
                     tokens.begin() + static_cast<std::ptrdiff_t>((s + 1) * steps));
  }
  return out;
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
