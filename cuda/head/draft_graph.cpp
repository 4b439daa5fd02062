#include "cuda/head/draft_graph.h"

#include <fmt/format.h>

#include "cuda/kernels/numeric/rows.h"
#include "cuda/kernels/sampling/advance.h"
#include "cuda/kernels/sampling/argmax.h"
#include "reference/tensor/error.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

DraftGraph::DraftGraph(const DraftContext& context, int sequences, int steps, int capacity)
    : context_(context),
      sequences_(sequences),
      steps_(steps),
      capacity_(capacity),
      activations_(context.settings.shape, context.settings.headwise_gate, sequences, capacity, multiprocessors()),
      ids_(sequences),
      positions_(sequences),
      drafts_(static_cast<std::size_t>(sequences) * steps),
      hidden_(static_cast<std::size_t>(sequences) * row_stride(context.settings.shape.hidden)),
      keys_(sequences) {
  for (auto& cache : context_.caches) {
    cache.reserve(context_.stream, std::vector<int>(sequences, capacity));
    cache_generations_.push_back(cache.generation());
    rows_.push_back(
        {Buffer<std::int32_t>(sequences), Buffer<std::int32_t>(sequences), Buffer<std::int32_t>(sequences)});
  }
  graph_.emplace(context_.stream, [this] { enqueue(); });
}

void DraftGraph::enqueue() const {
  for (int step = 0; step < steps_; ++step) {
    const std::size_t layer = static_cast<std::size_t>(step) % context_.layers.size();
    const LayerRows& own = rows_[layer];
    const StepRows rows{.tokens = sequences_,
                        .max_keys = capacity_,
                        .ids = ids_.data(),
                        .positions = positions_.data(),
                        .cache_rows = own.cache_rows.data(),
                        .key_bases = own.key_bases.data(),
                        .key_counts = own.key_counts.data(),
                        .hidden_states = step == 0 ? hidden_.data() : activations_.final_layernorm.data()};
    run_layer(context_.stream, context_.settings, context_.layers[layer], context_.embedding, context_.caches[layer],
              rows, activations_, context_.library);
    argmax(context_.stream, {.rows = sequences_,
                             .width = context_.settings.shape.vocabulary,
                             .logits = activations_.logits.data(),
                             .keys = keys_.data()});
    advance_draft(context_.stream, {.sequences = sequences_,
                                    .step = step,
                                    .steps = steps_,
                                    .keys = keys_.data(),
                                    .drafts = drafts_.data(),
                                    .ids = ids_.data(),
                                    .positions = positions_.data(),
                                    .cache_rows = own.cache_rows.data(),
                                    .key_counts = own.key_counts.data()});
  }
}

bool DraftGraph::fits(int sequences, int steps, int keys) const {
  bool in_place = true;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    in_place = in_place && context_.caches[i].generation() == cache_generations_[i];
  }
  return in_place && sequences == sequences_ && steps == steps_ && keys <= capacity_;
}

int DraftGraph::rows_of_layer(std::size_t layer) const {
  const int layers = static_cast<int>(context_.layers.size());
  return steps_ / layers + (static_cast<int>(layer) < steps_ % layers ? 1 : 0);
}

std::vector<std::int32_t> DraftGraph::run(const DraftStart& start) {
  const Stream stream = context_.stream;
  ids_.upload(stream, start.tokens);
  positions_.upload(stream, start.positions);
  upload_bytes(stream, hidden_.data(), start.hidden.data(), start.hidden.size() * sizeof(std::uint16_t));
  fill_bytes(stream, keys_.data(), 0, keys_.size() * sizeof(unsigned long long));
  for (std::size_t layer = 0; layer < rows_.size(); ++layer) {
    const LayerCache& cache = context_.caches[layer];
    std::vector<std::int32_t> next;
    std::vector<std::int32_t> bases;
    std::vector<std::int32_t> counts;
    for (int s = 0; s < sequences_; ++s) {
      if (cache.rows(s) + rows_of_layer(layer) > capacity_) {
        throw input_error(fmt::format("sequence {} has {} rows; {} drafts would outgrow the graph's capacity of {}", s,
                                      cache.rows(s), steps_, capacity_));
      }
      bases.push_back(cache.base(s));
      next.push_back(cache.base(s) + cache.rows(s));
      counts.push_back(cache.rows(s) + 1);
    }
    rows_[layer].cache_rows.upload(stream, next);
    rows_[layer].key_bases.upload(stream, bases);
    rows_[layer].key_counts.upload(stream, counts);
  }
  graph_->launch(stream);
  auto drafts = drafts_.download(stream);
  for (std::size_t layer = 0; layer < rows_.size(); ++layer) {
    LayerCache& cache = context_.caches[layer];
    for (int s = 0; s < sequences_; ++s) cache.set_rows(s, cache.rows(s) + rows_of_layer(layer));
  }
  return drafts;
}

void DraftGraph::launch() const {
  graph_->launch(context_.stream);
  synchronize(context_.stream);
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
