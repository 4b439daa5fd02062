#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "harness/loading/sglang/load/pool.h"
#include "harness/loading/sglang/quantisation/quantisation.h"
#include "harness/loading/symbolic/joined_view.h"
#include "reference/model/config.h"

namespace mtpcheck::sglang {

/// What SGLang does with the indexer's tensors: its kernels want the rope entries of each head first, and wk and
/// weights_proj in one BF16 matrix.
class Indexer {
 public:
  Indexer(const HeadConfig& config, const std::optional<Quantisation>& quantisation, Pool& pool);

  /// wq_b, wk and k_norm, scales included, with the rows of each head's rope entries first; any other tensor as it is.
  /// Raises where a tensor has not one row an entry, as block scales have not.
  JoinedView rope_first(const std::string& name, const SourceView& weight) const;

  /// Takes wk and weights_proj: rows of the fused matrix, at once where they are not quantised, else as soon as weight
  /// and scale are both there. nullopt: not its business.
  std::optional<Outcome> take(const std::string& name, const JoinedView& weight);

 private:
  struct Waiting {
    std::optional<JoinedView> tensor;
    std::uint32_t index = 0;
  };
  struct Pair {
    Waiting weight;
    Waiting scale;
  };

  Outcome dequantised(std::uint32_t fused, Shard shard, Pair& pair);

  const HeadConfig& config_;
  std::size_t block_rows_ = 128;
  std::size_t block_cols_ = 128;
  Pool& pool_;
  Pair wk_;
  Pair weights_proj_;
};

/// block_quant_dequant(weight, scale, [block_rows, block_cols]).to(bfloat16), copied into the rows of `target`: scales
/// are repeated a block, cut to the weight's size, and multiplied as the numbers that their dtype holds: bytes of MXFP8
/// are not decoded.
std::vector<Write> copy_dequantised(const TargetView& target, const JoinedView& weight, const JoinedView& scale,
                                    std::size_t block_rows, std::size_t block_cols);

}  // namespace mtpcheck::sglang
