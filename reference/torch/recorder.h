#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>

#include "reference/model/head.h"

namespace mtpcheck::torch_head {

/// Hands the stages of one forward to a sink.
class Recorder {
 public:
  Recorder(StageSink& sink, std::size_t step, std::size_t sequences)
      : sink_(sink), step_(step), packed_(sequences > 1) {}

  bool wants(Stage stage) const { return sink_.wants(stage); }

  /// Records a stage over all tokens of the call.
  void operator()(Stage stage, const at::Tensor& value) const { record({stage, step_, std::nullopt}, value); }

  /// Records a stage that each sequence has of its own.
  void of_sequence(Stage stage, std::size_t sequence, const at::Tensor& value) const {
    record({stage, step_, packed_ ? std::optional(sequence) : std::nullopt}, value);
  }

 private:
  void record(const StageKey& key, const at::Tensor& value) const;

  StageSink& sink_;
  std::size_t step_;
  bool packed_;
};

}  // namespace mtpcheck::torch_head
