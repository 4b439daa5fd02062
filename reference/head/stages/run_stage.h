#pragma once

#include "reference/head/stages/frame.h"
#include "reference/model/input.h"

namespace mtpcheck {

/// How a stage is run, beyond what the layer defines.
struct StageDemands {
  const Selections* forced = nullptr;  ///< choices that replace the head's own
  const KeyChoice* reused = nullptr;   ///< keys chosen by an earlier draft step, one entry a row
  bool keep_index_scores = false;      ///< T×S tensors are kept only on demand
  bool keep_probabilities = false;
};

/// Runs one stage on the values its inputs have in `frame`, and stores its value there. k_pe also extends the caches by
/// this call's latents, indexer_k by its index keys. Throws Error{input} for a forced choice that cannot be.
template <class S>
void run_stage(Frame<S>& frame, Stage stage, const StageDemands& demands);

/// Appends kv_c and k_pe (indexer_k and its scales) of each sequence's rows to its cache.
template <class S>
void append_latents(Frame<S>& frame);
template <class S>
void append_index_keys(Frame<S>& frame);

}  // namespace mtpcheck
