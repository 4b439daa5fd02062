#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/checkpoint/header_set.h"
#include "reference/model/config.h"

namespace mtpcheck {

/// Which rank of which group loads.
struct Topology {
  std::size_t tp_size = 1;
  std::size_t tp_rank = 0;

  /// Experts are dealt out whole over the tensor-parallel group instead of being cut.
  bool expert_parallel = false;

  /// Of each global expert its slot on this rank, −1 where another rank has it. Empty: linear placement.
  std::vector<std::int64_t> expert_map;
};

/// Everything that decides how an engine loads a checkpoint.
struct LoadRequest {
  const HeadConfig& config;
  const nlohmann::json& config_json;  ///< the whole config.json: quantization_config, mtp_quant_algo, …
  const HeaderSet& headers;
  Topology topology;
  std::string kv_cache_dtype = "auto";

  /// The configuration was changed after the engine had checked it (a value of 0 for num_nextn_predict_layers that its
  /// own config class refuses, set on the object afterwards).
  bool config_unchecked = false;
};

/// Throws Error{usage} for a topology that cannot be: a rank that is not below the size, an expert map without expert
/// parallelism.
void check_topology(const Topology& topology);

}  // namespace mtpcheck
