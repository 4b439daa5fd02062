#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda/head/activations.h"
#include "cuda/head/caches.h"
#include "cuda/head/draft_graph.h"
#include "cuda/head/layer.h"
#include "cuda/head/layer_weights.h"
#include "cuda/head/recording.h"
#include "cuda/head/step_input.h"
#include "cuda/runtime/gemm_library.h"
#include "cuda/runtime/memory.h"
#include "reference/model/head.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// RoPE's frequencies in device memory, for both of the head's pairings.
class RopeTables {
 public:
  RopeTables(const HeadConfig& config, const Conventions& conventions);
  /// For a step whose largest position is `longest`: of the known types only `dynamic` depends on it. True where the
  /// tables have moved.
  bool prepare(Stream stream, std::int64_t longest, LayerSettings& settings);

 private:
  HeadConfig config_;
  Conventions conventions_;
  std::int64_t prepared_for_ = -1;
  Buffer<double> half_turns_;
  float scale_ = 1;
};

/// The optimised head: bf16 arithmetic with float32 sums, weights in bf16 or FP8 as they are stored.
class CudaHead final : public Head {
 public:
  /// Uploads the weights. Throws Error{environment} without driver, device or memory, Error{input} where the weights do
  /// not fit the config or a size is beyond what the kernels take.
  CudaHead(const HeadConfig& config, const HeadWeights& weights, Conventions conventions);
  /// Computes with weights that are in device memory, for whose shapes the caller answers. Throws the same.
  CudaHead(HeadConfig config, DeviceWeights weights, Conventions conventions);

  std::string name() const override;
  void reset() override;
  void forward(const HeadInput& input, const ForwardOptions& options, StageSink& sink) override;
  /// The same for rows in device memory, where they lie. Ids and positions are the caller's word: nobody reads them
  /// before the kernels do. Returns when the rows are no longer needed.
  void forward(const DeviceInput& input, const ForwardOptions& options, StageSink& sink);
  void rollback(std::size_t sequence, std::size_t length) override;

  /// K greedy drafts of each sequence as one CUDA graph, [B][K]: the loop of reference/protocol/drafter.h without the
  /// host. The graph is kept, and recorded anew for another K or where the caches must grow.
  ///
  /// last  one row a sequence that the caches hold: its last verified token, and the target's hidden state
  /// Throws Error{input} for another number of rows.
  std::vector<std::vector<std::int64_t>> draft(const HeadInput& last, std::size_t steps);

 private:
  std::vector<SequenceStep> begin(const std::vector<std::int64_t>& cu_seqlens, std::size_t layer);
  void prepare_rope(std::int64_t longest);
  template <class Input>
  void forward_rows(const Input& input, std::int64_t longest, const ForwardOptions& options, StageSink& sink);
  void run(const StepRows& rows, const ForwardOptions& options, const std::vector<SequenceStep>& sequences,
           std::size_t layer, StageSink& sink);

  HeadConfig config_;
  Conventions conventions_;
  std::string device_;
  OwnedStream stream_;
  GemmLibrary library_;
  LayerSettings settings_;
  RopeTables rope_;
  DeviceWeights weights_;
  std::vector<LayerCache> caches_;
  std::optional<std::size_t> sequences_;  // fixed by the first forward
  std::unique_ptr<DraftGraph> graph_;
};

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
