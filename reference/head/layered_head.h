#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "reference/head/head_options.h"
#include "reference/head/recording.h"
#include "reference/head/stages/cache.h"
#include "reference/head/stages/frame.h"
#include "reference/model/head.h"

namespace mtpcheck {

/// The head in one arithmetic: its MTP layers, their caches, and what a drafter switches between steps. The public face
/// is ReferenceHead, where each member is explained.
template <class S>
class LayeredHead {
 public:
  LayeredHead(HeadConfig config, HeadWeights weights, Conventions conventions, ReferenceOptions options);

  void reset();
  void forward(const HeadInput& input, const ForwardOptions& options, StageSink& sink);
  void rollback(std::size_t sequence, std::size_t length);
  std::size_t cached_rows(std::size_t sequence) const;
  void set_topk_indices_buffer(std::shared_ptr<TopkIndicesBuffer> buffer);
  void set_skip_topk(bool skip) { skip_topk_ = skip; }
  void compact_topk_indices(std::span<const std::size_t> slot_ids);
  std::vector<ReplayedTensor> replay(Stage stage, const HeadInput& input, const RecordedStages& recorded,
                                     const ReplayOptions& options) const;

  const HeadConfig& config() const { return config_; }
  const Conventions& conventions() const { return conventions_; }
  const ReferenceOptions& options() const { return options_; }
  const RoundingPlan& rounding() const { return rounding_; }

 private:
  LayerDefinition definition(std::size_t spec_step_idx, const Conventions& conventions,
                             const Deviations& deviations) const;
  std::vector<SequenceRows<S>> begin(const HeadInput& input, std::size_t layer);
  void run(Frame<S>& frame, const ForwardOptions& options, StageSink& sink);
  void prepare_buffer(std::size_t tokens);
  void truncate(LatentCache<S>& cache, std::size_t length) const;

  HeadConfig config_;
  HeadWeights weights_;
  Conventions conventions_;
  ReferenceOptions options_;
  RoundingPlan rounding_;
  std::vector<std::vector<LatentCache<S>>> caches_;  // [layer][sequence]
  bool begun_ = false;                               // the number of sequences is fixed by the first forward
  std::shared_ptr<TopkIndicesBuffer> buffer_;
  bool skip_topk_ = false;
};

}  // namespace mtpcheck
