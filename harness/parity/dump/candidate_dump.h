#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "harness/parity/trace/chain.h"
#include "reference/model/config.h"
#include "reference/model/input.h"
#include "reference/tensor/dtype.h"
#include "reports/record/comparison.h"

namespace mtpcheck {

struct DumpChoice {
  std::filesystem::path path;
  std::filesystem::path mapping;  ///< JSON file; empty: exact names
  std::string prefix;             ///< of the names to take
  std::size_t steps = 1;
};

/// A dump as the candidate of a comparison.
struct CandidateDump {
  Chain chain;
  std::vector<reports::UnmatchedRecord> unmatched;
  std::vector<std::string> notes;
  Dtype precision = Dtype::f32;  ///< the shortest floating type among its stages' tensors
};

/// Reads the dump and lays it out as the head of `config` would record `input`. The inputs of steps k ≥ 1 are the
/// dump's own stepK.input_ids and recycled hidden states; where it has no ids, the tokens its logits draft.
CandidateDump read_candidate_dump(const DumpChoice& choice, const HeadConfig& config, const HeadInput& input,
                                  const std::function<bool(Stage)>& wanted);

}  // namespace mtpcheck
