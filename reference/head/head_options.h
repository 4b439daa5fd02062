#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reference/head/deviations.h"
#include "reference/head/precision.h"
#include "reference/head/rounding_points.h"
#include "reference/head/stages/frame.h"
#include "reference/model/conventions.h"
#include "reference/model/stages.h"
#include "reference/tensor/tensor.h"

namespace mtpcheck {

/// The buffer of chosen keys that a drafter shares between the target and its draft head: one row a token of the
/// batch, overwritten by each forward that runs the indexer.
struct TopkIndicesBuffer {
  explicit TopkIndicesBuffer(std::size_t max_rows) : rows(max_rows) {}
  std::vector<std::vector<std::int32_t>> rows;  ///< key indices within the row's sequence
};

struct ReferenceOptions {
  Precision precision = Precision::f32;
  /// Whose rounding points and form of attention: vllm, transformers, sglang.
  std::string rounding_preset = "vllm";
  /// Instead of the preset's plan.
  std::optional<RoundingPlan> rounding;
  ActivationQuantisation activations = ActivationQuantisation::none;
  /// Projections with one running sum an output (linear_in_order): what arithmetic in float32 costs at its longest
  /// sums.
  bool sums_in_order = false;
  Deviations deviations;
  ThreadPool* pool = nullptr;  ///< nullptr: shared_pool()
  /// True: the head makes a buffer of chosen keys of its own. False: it is the caller's business, as in an engine, and
  /// a forward of a sparse head before set_topk_indices_buffer is an error.
  bool own_topk_buffer = true;
};

/// Rows cached before the ones replayed, of one sequence, as recorded.
struct RecordedPast {
  TensorView kv_c;       ///< [rows, Lkv]
  TensorView k_pe;       ///< [rows, r]
  TensorView indexer_k;  ///< [rows, d]; no elements for dense attention
};

struct ReplayOptions {
  std::size_t step = 0;            ///< prefix of the recorded names
  std::size_t spec_step_idx = 0;   ///< which MTP layer
  std::vector<RecordedPast> past;  ///< per sequence; empty: the sequences begin with these rows
  /// Instead of the head's own: for trying the known ways of going wrong.
  std::optional<Conventions> conventions;
  std::optional<Deviations> deviations;
};

struct ReplayedTensor {
  StageKey key;
  Tensor value;
};

}  // namespace mtpcheck
