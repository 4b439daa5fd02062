#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harness/loading/audit/audit.h"

namespace mtpcheck {

/// What a running engine holds, as its capture module wrote it:
///
///     {"moment": "return of load_weights", "class": "HYV4MTP",
///      "params": {"model.layers.78.enorm.weight": {"dtype": "bfloat16", "shape": [6144], "sha256": "…"}, …}}
struct EngineDigests {
  struct Parameter {
    std::string dtype;  ///< torch's word
    std::vector<std::size_t> shape;
    std::string sha256;
  };
  std::map<std::string, Parameter> parameters;
};

/// Throws Error{input} for a file that is none, and for digests taken at another moment than the return of
/// `load_weights`: afterwards an engine rearranges its parameters, and nothing could be compared.
EngineDigests read_digests(const std::filesystem::path& path);

/// One finding for each parameter whose digest, dtype or shape is not the predicted one, or that only one side has.
///
/// predicted  of digests_of. Parameters without one (random where nothing was written) are compared by shape.
std::vector<Finding> compare_digests(const Audit& audit, const std::vector<std::string>& predicted,
                                     const EngineDigests& running);

}  // namespace mtpcheck
