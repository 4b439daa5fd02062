#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/loading/plan/parameter.h"
#include "harness/loading/plan/request.h"
#include "harness/loading/sglang/quantisation/quantisation.h"

namespace mtpcheck::sglang {

/// Which of SGLang's weight loaders a parameter has.
enum class Loader : std::uint8_t {
  plain,       ///< default_weight_loader
  replicated,  ///< ReplicatedLinear
  column,      ///< ColumnParallelLinear
  merged,      ///< MergedColumnParallelLinear: gate and up
  row,         ///< RowParallelLinear
  sink,        ///< the attention sink
  experts,     ///< FusedMoE
};

/// The class of a linear layer's parameter, which decides how it is cut.
enum class Cut : std::uint8_t {
  weight,      ///< ModelWeightParameter, GroupQuantScaleParameter: rows and columns
  block,       ///< BlockQuantScaleParameter: rows and columns, in blocks
  channel,     ///< ChannelQuantScaleParameter: rows only
  per_tensor,  ///< PerTensorScaleParameter: one entry a projection, never cut
};

/// A parameter of the draft model with what its weight loader needs to know.
struct EngineParameter {
  Parameter parameter;
  Loader loader = Loader::plain;
  Cut cut = Cut::weight;
  bool quantised = false;                 ///< its method has SGLang's second generation of loaders, which watch dtypes
  std::vector<std::size_t> output_sizes;  ///< merged: rows of each projection, of all ranks together
  std::size_t block_rows = 1;             ///< Cut::block
  std::size_t tp_rank = 0;                ///< of the layer: 0 of 1 where it is not cut
  std::size_t tp_size = 1;
  Scheme::Kind scheme = Scheme::Kind::none;  ///< of the experts
  bool all_experts = false;                  ///< it has a slot for every expert, whatever rank this is
};

/// The draft model of one rank, as SGLang builds it: one layer, always with experts and an indexer of its own.
struct DraftHead {
  std::vector<EngineParameter> parameters;
  std::size_t first_expert = 0;   ///< global number of this rank's first expert
  std::size_t local_experts = 0;  ///< experts of this rank, in turn
};

/// Builds the draft model from a request with `draft_config`. Throws Refused where SGLang does not, with the key of
/// config.json that is at fault.
DraftHead build_draft_head(const LoadRequest& request, const std::optional<Quantisation>& quantisation);

}  // namespace mtpcheck::sglang
