#pragma once

#include <functional>
#include <map>
#include <vector>

#include "reference/model/head.h"

namespace mtpcheck {

/// The order of computation: step, then stage, then sequence.
struct ByComputation {
  bool operator()(const StageKey& a, const StageKey& b) const {
    if (a.step != b.step) return a.step < b.step;
    if (a.stage != b.stage) return a.stage < b.stage;
    return a.sequence < b.sequence;
  }
};

/// What a head recorded, by name, in the order of computation.
using Trace = std::map<StageKey, Tensor, ByComputation>;

/// Keeps copies of the stages it is told to want.
class TraceSink final : public StageSink {
 public:
  /// Wants every stage.
  TraceSink() = default;
  explicit TraceSink(std::function<bool(Stage)> wanted) : wanted_(std::move(wanted)) {}

  bool wants(Stage stage) const override { return !wanted_ || wanted_(stage); }
  void record(const StageKey& key, const TensorView& value) override;

  const Trace& trace() const { return trace_; }
  Trace take() { return std::move(trace_); }

 private:
  std::function<bool(Stage)> wanted_;
  Trace trace_;
};

/// The tensor recorded under `key`, or nullptr.
const Tensor* find(const Trace& trace, const StageKey& key);

}  // namespace mtpcheck
