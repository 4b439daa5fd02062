#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reference/head/head_options.h"
#include "reference/head/recording.h"
#include "reference/model/config.h"
#include "reference/model/conventions.h"
#include "reference/model/head.h"
#include "reference/model/weights.h"

namespace mtpcheck {

/// The definition of the head: Eigen, float64 or float32, float32 rounded as an engine of bf16 or f16 rounds.
///
/// The same bits for any number of threads, for any batch a row is in, and for prefill as for decode (but where a
/// choice of keys falls on rounding).
class ReferenceHead final : public Head {
 public:
  /// Throws Error{input} where the weights do not fit the config.
  ReferenceHead(HeadConfig config, HeadWeights weights, Conventions conventions, ReferenceOptions options);
  ~ReferenceHead() override;

  std::string name() const override;
  void reset() override;
  void forward(const HeadInput& input, const ForwardOptions& options, StageSink& sink) override;
  void rollback(std::size_t sequence, std::size_t length) override;

  /// Rows cached of a sequence, the most of any MTP layer.
  std::size_t cached_rows(std::size_t sequence) const;

  /// Shares the target's buffer; see ReferenceOptions::own_topk_buffer. As HYV4MTP.set_topk_indices_buffer.
  void set_topk_indices_buffer(std::shared_ptr<TopkIndicesBuffer> buffer);

  /// True: the indexer is not run, and row i attends to the keys in the buffer's row i (draft steps ≥ 1 of
  /// index_share_for_mtp_iteration). Its keys are then missing from the index cache until a rollback.
  void set_skip_topk(bool skip);

  /// Moves the buffer's rows `slot_ids` to its front: the rows from which the next step decodes.
  void compact_topk_indices(std::span<const std::size_t> slot_ids);

  /// Runs one stage on recorded inputs, somebody else's or one's own. Empty when a tensor that the stage needs was not
  /// recorded; which they are says stage_inputs. The caches of this head are not touched.
  std::vector<ReplayedTensor> replay(Stage stage, const HeadInput& input, const RecordedStages& recorded,
                                     const ReplayOptions& options) const;

  const HeadConfig& config() const;
  const Conventions& conventions() const;
  const RoundingPlan& rounding() const;

 private:
  struct Precisions;  // the head in float32 or in float64
  std::unique_ptr<Precisions> head_;
};

std::unique_ptr<ReferenceHead> make_reference_head(HeadConfig config, HeadWeights weights, Conventions conventions,
                                                   ReferenceOptions options = {});

}  // namespace mtpcheck
