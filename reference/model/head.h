#pragma once

#include <cstddef>
#include <string>

#include "reference/model/input.h"
#include "reference/model/stages.h"
#include "reference/tensor/tensor.h"

namespace mtpcheck {

/// Takes a head's stages as they are computed. The view is valid during the call only.
class StageSink {
 public:
  virtual ~StageSink() = default;
  /// False lets a head skip what it would only compute to be recorded (the T×S tensors above all).
  virtual bool wants(Stage stage) const = 0;
  virtual void record(const StageKey& key, const TensorView& value) = 0;
};

struct ForwardOptions {
  std::size_t step = 0;           ///< draft step: prefix of the recorded names ("step1.")
  std::size_t spec_step_idx = 0;  ///< which MTP layer, modulo their number
  const Selections* forced = nullptr;
};

/// A draft head: the reference, LibTorch's, the CUDA one, or a recording of somebody else's.
///
/// A head owns the latent KV cache and the index-key cache of the sequences it is working on. `forward` appends the
/// rows of each packed sequence to that sequence's cache and lets them attend to all that is cached; `rollback` forgets
/// rejected rows. After construction, and after `reset`, caches are empty, so that one `forward` is a prefill.
class Head {
 public:
  virtual ~Head() = default;

  /// "reference f64", "torch bf16", …: for messages and reports.
  virtual std::string name() const = 0;

  /// Empties the caches of all sequences.
  virtual void reset() = 0;

  /// Runs the layer on `input`, records every stage that `sink` wants under the names of `Stage`, and extends the
  /// caches. Stages' tensors have the shapes of stages.h, with T the rows of this call and S the sequence's keys after
  /// it; each is recorded in the head's own dtype (f64, f32, bf16, f16), selections as i32; a head of a short type may
  /// record what engines keep in float32 (indexer weights and scores, router logits, expert weights, logits) as f32.
  /// Throws Error{input} for an input that does not fit the config (rows, ids beyond the vocabulary, more sequences
  /// than the caches were begun with).
  virtual void forward(const HeadInput& input, const ForwardOptions& options, StageSink& sink) = 0;

  /// Keeps the first `length` rows of a sequence's caches. Throws Error{input} when fewer are cached.
  virtual void rollback(std::size_t sequence, std::size_t length) = 0;
};

}  // namespace mtpcheck
