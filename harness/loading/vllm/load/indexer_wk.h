#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "harness/loading/symbolic/source_view.h"

namespace mtpcheck::vllm {

/// An FP8 `wk` of the indexer and its scale arrive apart; each waits for the other, and together they become BF16 rows
/// of the fused wk_weights_proj.
class IndexerWkPairs {
 public:
  /// What became of one tensor.
  struct Step {
    bool taken = false;                     ///< it is half of such a pair
    std::optional<SourceView> dequantised;  ///< set when the pair is complete
    std::string parameter;                  ///< the fused parameter's name, when complete
  };

  /// Offers a tensor under its name in the draft model. Throws Raised where vLLM raises over the shapes.
  Step offer(const std::string& name, const SourceView& tensor);

 private:
  struct Pair {
    std::optional<SourceView> weight;
    std::optional<SourceView> scale;
  };
  std::map<std::string, Pair> pending_;
};

}  // namespace mtpcheck::vllm
