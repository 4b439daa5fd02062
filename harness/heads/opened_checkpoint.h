#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "harness/checkpoint/checkpoint.h"
#include "harness/loading/carry_out/fill.h"
#include "reference/model/config.h"
#include "reference/model/conventions.h"
#include "reference/model/weights.h"

namespace mtpcheck {

/// Which reading of the files a head runs on.
struct WeightsChoice {
  bool as_loaded = false;       ///< what the loader would make of the files, instead of what they mean
  std::string loader = "vllm";  ///< whose rules; as_loaded only
  Fill fill = Fill::initial;    ///< of elements that the loader leaves unwritten
  std::uint64_t seed = 0;       ///< of Fill::random
};

/// A checkpoint of which a head can be made.
struct OpenedCheckpoint {
  Checkpoint checkpoint;
  HeadConfig config;
  HeadWeights weights;
  ConventionSettings mtpcheck_json;  ///< the settings of a mtpcheck.json beside the config
};

/// Opens, validates and resolves; throws Error{input} for anything that keeps a head from running on it.
OpenedCheckpoint open_for_heads(const std::filesystem::path& path, const WeightsChoice& choice = {});

/// Weight of the target's final norm [H]; empty where the files do not hold it.
Vector target_norm(const OpenedCheckpoint& opened);

}  // namespace mtpcheck
