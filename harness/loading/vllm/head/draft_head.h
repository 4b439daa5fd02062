#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/loading/plan/parameter.h"
#include "harness/loading/plan/request.h"
#include "harness/loading/vllm/quantisation/config.h"

namespace mtpcheck::vllm {

/// Which of vLLM's weight loaders a parameter has.
enum class Loader : std::uint8_t {
  plain,       ///< default_weight_loader: equal shapes, or one element each
  replicated,  ///< ReplicatedLinear
  column,      ///< ColumnParallelLinear
  row,         ///< RowParallelLinear
  merged,      ///< MergedColumnParallelLinear
  vocabulary,  ///< VocabParallelEmbedding and ParallelLMHead
  sink,        ///< the attention sink
  kv_scale,    ///< KVCacheScaleParameter
  experts,     ///< RoutedExperts
};

/// The class of a linear layer's parameter: it decides which dimensions a rank's share is cut along.
enum class Cut : std::uint8_t {
  weight,      ///< ModelWeightParameter: rows and columns
  block,       ///< BlockQuantScaleParameter: rows and columns, in blocks
  channel,     ///< ChannelQuantScaleParameter: rows
  per_tensor,  ///< PerTensorScaleParameter: one entry a projection, never cut
};

/// The quantisation method of the experts; `none` is UnquantizedFusedMoEMethod.
enum class ExpertMethod : std::uint8_t { none, fp8, modelopt_fp8, modelopt_mxfp8, modelopt_nvfp4, compressed_fp8 };

/// How an expert scale says that it is to be loaded (its `quant_method`); `none` for weights and where ModelOpt's own
/// rules apply.
enum class ExpertScale : std::uint8_t { none, tensor, channel, block };

/// A parameter of the draft model with what its weight loader needs to know.
struct EngineParameter {
  Parameter parameter;
  Loader loader = Loader::plain;

  // Linear layers.
  Cut cut = Cut::weight;
  std::size_t row_dim = 0;                ///< output_dim
  std::size_t col_dim = 1;                ///< input_dim
  std::size_t tp_rank = 0;                ///< of the layer: 0 of 1 where it is replicated
  std::size_t tp_size = 1;                ///< (experts too: 0 of 1 under expert parallelism)
  std::vector<std::size_t> output_sizes;  ///< merged: rows of each projection, of all ranks together
  std::size_t scale_block_rows = 1;       ///< Cut::block

  // Experts.
  ExpertMethod method = ExpertMethod::none;
  ExpertScale scale = ExpertScale::none;
  std::size_t refine_rows = 1;  ///< the file's block scales are repeated to the rank's finer grid
  std::size_t refine_cols = 1;

  /// Its module has a quantisation method (an unquantised one included), so that the strict check passes over it.
  bool exempt_from_strict_check = false;
};

/// The draft model of one rank, as vLLM builds it.
struct DraftHead {
  std::vector<EngineParameter> parameters;
  std::vector<std::int64_t> local_expert;  ///< slot of each global expert, −1 for another rank's
};

/// Builds the draft model. Throws Refused where vLLM does not, with the key of config.json that is at fault.
DraftHead build_draft_head(const LoadRequest& request, const Quantisation& quantisation);

}  // namespace mtpcheck::vllm
