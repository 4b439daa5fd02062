#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "reference/model/config.h"
#include "reference/tensor/tensor.h"

namespace mtpcheck {

/// What a plan needs to know of a checkpoint's files: headers, no data.
struct HeaderSet {
  std::vector<TensorView> tensors;  ///< in any order; `file` and `offset` set, `bytes` may be empty

  /// The files that the index promises (each once, any order); nullopt where there is no index. A tensor in a file that
  /// is not among them never reaches an engine that obeys the index.
  std::optional<std::vector<std::string>> indexed_files;
};

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

}  // namespace mtpcheck
