#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/faults/clean/requantise.h"
#include "harness/faults/edit/editable_checkpoint.h"
#include "harness/loading/plan/request.h"

namespace mtpcheck {

/// A checkpoint in which nothing is wrong, and how it is loaded and run.
struct CleanVariation {
  WeightFormat format = WeightFormat::bf16;
  bool packed = false;       ///< experts in one tensor, or one an expert and projection
  bool layer_names = false;  ///< model.layers.{L}, or model.mtp_layers.0
  std::size_t shards = 1;
  bool indexed = true;    ///< an index is there; always with several shards
  bool backbone = false;  ///< a tensor of the backbone is there too
  Topology topology;
  std::string preset = "transformers";  ///< of reference and candidate alike
  std::uint64_t weights_seed = 0;  ///< the weights are tiny-hy4's, each times a random factor near 1; 0: as they are
  std::uint64_t rows_seed = 0;     ///< of the rows that are compared

  std::string name() const;  ///< distinct for distinct variations but for the rows' seed
};

/// `count` distinct variations, the same ones at every call: formats × layouts × names × shards × topologies × presets
/// × weights, the formats in turn and the rest of each mixed. Throws Error{usage} for more than there are.
std::vector<CleanVariation> clean_variations(std::size_t count);

/// The weights of a variation in the plainest layout: split experts, mtp_layers, one file. base  checkpoint-bf16
EditableCheckpoint plain_checkpoint(const EditableCheckpoint& base, WeightFormat format, std::uint64_t weights_seed);

/// The same weights laid out as the variation says.
EditableCheckpoint laid_out(EditableCheckpoint plain, const CleanVariation& variation);

}  // namespace mtpcheck
